"""The answer as a function of the embedding output, and its gradient, inside the model's own forward pass.

`inputs_embeds` enters the model earlier: positions and the embedding norm are still applied to it, so passing an
embedding output there would embed it twice. Here the states are replaced where the first block reads them, after
capture has verified that the block reads nothing else.
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
from thalweg.faithfulness.operators import TokenSequence
from thalweg.faithfulness.scoring import batch_tensors
from thalweg.models.encode import encode

EmbeddingStates = Float[Tensor, "copy token width"]


@dataclass(eq=False)
class _EmbeddingHandler:
    """Records the embedding output and stops, or continues with other states in its place."""

    states: Tensor | None = None
    recorded: Tensor | None = field(default=None, init=False)

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        if anatomy.states.entry_bypass:
            raise ModelError(f"{anatomy.states.entry_bypass}, so its gradient would be incomplete")
        return set(anatomy.states.entries)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        if self.states is None:
            self.recorded = value.detach().clone()
            raise StopPassError
        return self.states.to(value.dtype).view(value.shape)


def embedding_output(case: Case, sequence: TokenSequence | None = None) -> EmbeddingStates:
    """The states that the first block reads, for the case's own input or another one of the same length."""
    model, pad = case.subject.model, case.blanks.pad
    anatomy = case.subject.anatomy(encode(model, None, batch_tensors(model, [case.original], pad)))
    handler = _EmbeddingHandler()
    with torch.no_grad():
        replay(model, batch_tensors(model, [sequence or case.original], pad), anatomy, handler)
    assert handler.recorded is not None
    return handler.recorded.reshape(1, len(case.original), -1)


def answers(case: Case, states: EmbeddingStates) -> Float[Tensor, " copy"]:
    """The answer when the first block reads these states; differentiable."""
    logits = case.capture.replay(_EmbeddingHandler(states), copies=len(states)).result["logits"]
    position = case.original.answer_position
    return case.answer.of(logits if position is None else logits[:, position])


def gradient(case: Case) -> tuple[Float[Tensor, "token width"], Float[Tensor, "token width"]]:
    """(embedding output, gradient of the answer there)."""
    if "gradient" not in case.cache:
        states = embedding_output(case).requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(answers(case, states).sum(), states)
        case.cache["gradient"] = (states.detach()[0], slope[0])
    return case.cache["gradient"]


def gradient_norms(case: Case) -> Float[np.ndarray, " token"]:
    """The L2 norm of the gradient at every token's embedding output."""
    return gradient(case)[1].double().norm(dim=-1).cpu().numpy()
