"""Value zeroing: change of a layer's output when a token's value vectors are zeroed."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from thalweg.aggregate.rollout import rollout
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import Tap
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.contribution_graph import step_of
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.numerics import working
from thalweg.progress import progress

ZEROINGS_PER_BATCH = 32
TOKENS_PER_BATCH = 2**14  # longer texts run in smaller batches, so that memory does not grow with the square


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product", cost="high"),
    paper="Mohebbi et al. 2023",
    cost="one forward pass per token and layer",
    guarantee="measured on the real model, without a decomposition; rows sum to one",
)
def value_zeroing(capture: Capture, target: Target, params: Params) -> Maps:
    """Change of a layer's output when a token's value vectors are zeroed, multiplied through the layers.

    c_ij = 1 − cos(y_i^{¬j}, y_i) with y the layer's output, MLP included (if the end of the last layer is unknown,
    what the model returns), normalised over j; queries and keys stay as they are. The product over layers has no added
    identity. Limits: it runs one pass per token and layer, so it is slow; and the residual is never zeroed, so what a
    token keeps of itself is understated.
    """
    blocks = capture.upto(params.layer)
    steps = []
    with progress("value zeroing") as report, torch.no_grad():
        done, total = 0, sum(block.keys.stop - block.keys.start for block in blocks)
        for number, block in enumerate(blocks):
            count = block.keys.stop - block.keys.start
            before = _states(capture, number, [])
            moved = []
            batch = max(1, min(ZEROINGS_PER_BATCH, TOKENS_PER_BATCH // len(capture.tokens)))
            for first in range(0, count, batch):
                keys = list(range(first, min(first + batch, count)))
                after = _states(capture, number, keys)
                moved.append((1 - F.cosine_similarity(after, before, dim=-1)).clamp_min(0))  # [key query]
                done += len(keys)
                report(done, total)
            visible = block.attention.visible()  # masked tokens change by rounding only
            contributions = torch.cat(moved).T.to(visible.device, working(block.input.dtype)) * visible
            if block.queries != block.keys:  # the residual's column: it is never zeroed
                contributions = F.pad(contributions, (0, 1))
            steps.append(step_of(capture, block, contributions)[0])
    assumed = ("the residual is never zeroed: what a token keeps of itself is understated",)
    if any(block.role == "cross" for block in blocks):
        assumed += ("cross-attention leaves the prefix no share, since its residual is never zeroed",)
    return Maps(rollout(steps, target.positions), torch.stack(steps), assumed=assumed)


def _states(capture: Capture, number: int, keys: list[int]) -> Float[Tensor, "copy query width"]:
    """The output of a layer at each of its tokens, one copy for every key whose values are zeroed."""
    zeroing = _Zeroing(number, keys)
    record = capture.replay(zeroing, copies=max(len(keys), 1))
    output = record.tensors[zeroing.tap]
    copies = max(len(keys), 1)
    queries = capture.blocks[number].queries
    states = output.reshape(copies, -1, output.shape[-1])[:, : queries.stop - queries.start]
    return states.cpu().double()  # small angles vanish in single precision


@dataclass(eq=False)
class _Zeroing:
    """An attention handler that zeroes the values of one key in each copy, in one block."""

    number: int
    keys: list[int]
    tap: Tap = field(init=False)
    calls: int = 0

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        self.tap = anatomy.states.after[self.number]
        return {self.tap}

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        here, self.calls = self.calls == self.number, self.calls + 1
        if not here or not self.keys:
            return call.run()
        value = call.value.clone()  # [copy kv_head key value_size]
        for copy, key in enumerate(self.keys):
            value[copy, :, key] = 0
        return call.run(value=value)
