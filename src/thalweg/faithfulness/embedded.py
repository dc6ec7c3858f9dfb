"""The answer as a function of the embedding output, inside the model's own pass.

`inputs_embeds` is another place: what goes in there still gets its positions and its norm, so that embedding outputs
given there are embedded twice. Here the states are replaced where the first block starts from them, once proved to be
all that it starts from.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import StopPassError, Tap
from thalweg.capture.run import replay
from thalweg.errors import ModelError
from thalweg.faithfulness.case import Case
from thalweg.faithfulness.operators import Reading
from thalweg.faithfulness.scoring import as_tensors
from thalweg.models.encode import encode

States = Float[Tensor, "copy token width"]


@dataclass(eq=False)
class _Embedding:
    """Stops at the embedding output and keeps it, or goes on with other states in its place."""

    states: Tensor | None = None
    seen: Tensor | None = field(default=None, init=False)

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        if anatomy.states.entry_bypass:
            raise ModelError(f"{anatomy.states.entry_bypass}, so a gradient would miss a part: it is refused")
        return set(anatomy.states.entries)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        if self.states is None:
            self.seen = value.detach().clone()
            raise StopPassError
        return self.states.to(value.dtype).view(value.shape)


def embedding_output(case: Case, reading: Reading | None = None) -> States:
    """What the first block starts from, of the case's own input or of another one of the same length."""
    model, pad = case.subject.model, case.blanks.pad
    anatomy = case.subject.anatomy(encode(model, None, as_tensors(model, [case.whole], pad)))
    watcher = _Embedding()
    with torch.no_grad():
        replay(model, as_tensors(model, [reading or case.whole], pad), anatomy, watcher)
    assert watcher.seen is not None
    return watcher.seen.reshape(1, len(case.whole), -1)


def answers(case: Case, states: States) -> Float[Tensor, " copy"]:
    """The answer when the first block starts from these states; differentiable."""
    logits = case.capture.replay(_Embedding(states), copies=len(states)).result["logits"]
    return case.answer.of(logits if case.whole.read is None else logits[:, case.whole.read])


def gradient(case: Case) -> tuple[Float[Tensor, "token width"], Float[Tensor, "token width"]]:
    """(embedding output, gradient of the answer there)."""
    if "gradient" not in case.memory:
        states = embedding_output(case).requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(answers(case, states).sum(), states)
        case.memory["gradient"] = (states.detach()[0], slope[0])
    return case.memory["gradient"]


def gradient_norms(case: Case) -> Float[np.ndarray, " token"]:
    """The length of the gradient at every token's embedding output."""
    return gradient(case)[1].double().norm(dim=-1).cpu().numpy()
