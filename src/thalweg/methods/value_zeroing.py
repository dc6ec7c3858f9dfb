"""Value zeroing: what changes in a layer's output when a token has nothing to say."""

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

COPIES = 32  # zeroings that run as one batch


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product", cost="high"),
    paper="Mohebbi et al. 2023",
    cost="one forward pass per token and layer",
    guarantee="rows sum to one; measured on the real model, nothing is decomposed",
)
def value_zeroing(capture: Capture, target: Target, params: Params) -> Maps:
    """How much a layer's output moves when a token's values are zeroed, queries and keys untouched.

    c_ij = 1 − cos(y_i^{¬j}, y_i) with y the layer's output, MLP included (where the last layer's end is not
    known, what the model returns), normalised over j; the product over layers without added identity. Whole passes
    are run, so it is slow; and the residual stays, so what a token keeps of itself is understated.
    """
    blocks = capture.upto(params.layer)
    steps = []
    with progress("value zeroing") as report, torch.no_grad():
        done, total = 0, sum(block.keys.stop - block.keys.start for block in blocks)
        for number, block in enumerate(blocks):
            count = block.keys.stop - block.keys.start
            before = _states(capture, number, [])
            moved = []
            for first in range(0, count, COPIES):
                keys = list(range(first, min(first + COPIES, count)))
                after = _states(capture, number, keys)
                moved.append((1 - F.cosine_similarity(after, before, dim=-1)).clamp_min(0))  # [key query]
                done += len(keys)
                report(done, total)
            visible = block.attention.visible()  # what is hidden moves by rounding only
            contributions = torch.cat(moved).T.to(visible.device, working(block.input.dtype)) * visible
            if block.queries != block.keys:  # the residual's column: nothing of it is ever zeroed
                contributions = F.pad(contributions, (0, 1))
            steps.append(step_of(capture, block, contributions)[0])
    said = ["the residual is never zeroed: what a token keeps of itself is understated"]
    if any(block.role == "cross" for block in blocks):
        said.append("in cross-attention nothing is left to it, so the prefix has no share")
    return Maps(rollout(steps, target.positions), torch.stack(steps), assumed=tuple(said))


def _states(capture: Capture, number: int, keys: list[int]) -> Float[Tensor, "copy query width"]:
    """The output of a layer at each of its tokens, once for every key whose values are zeroed."""
    zeroing = _Zeroing(number, keys)
    record = capture.replay(zeroing, copies=max(len(keys), 1))
    seen = record.tensors[zeroing.tap]
    copies = max(len(keys), 1)
    queries = capture.blocks[number].queries
    states = seen.reshape(copies, -1, seen.shape[-1])[:, : queries.stop - queries.start]
    return states.cpu().double()  # a small angle is lost in single precision


@dataclass(eq=False)
class _Zeroing:
    """Runs the model's own attention, with the values of one key zeroed in each copy of one block."""

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
