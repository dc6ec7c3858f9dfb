"""Answers: the number that is explained for each target, as a function of the model's logits."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.logits import chosen_outputs
from thalweg.errors import InputError

Quantity = Literal["probability", "logit"]


@dataclass(frozen=True)
class Answer:
    """The explained number: the probability or the logit of an output, minus that of the foil if there is one."""

    output: int
    foil: int | None = None
    quantity: Quantity = "probability"

    def of(self, logits: Float[Tensor, "input output"]) -> Float[Tensor, " input"]:
        """In double precision, differentiable."""
        values = logits.double()
        if self.quantity == "probability":
            values = values.softmax(-1)
        value = values[:, self.output]
        return value if self.foil is None else value - values[:, self.foil]


@dataclass(frozen=True)
class TargetAnswer:
    """The answer of one target.

    `row` is the row of logits it is read from, None if the model has a single answer per text. `removable` are the
    tokens it can do without: not special, not the position it is read at, and with a path of attention to it.
    """

    answer: Answer
    row: int | None
    removable: tuple[int, ...]

    def of(self, logits: Float[Tensor, "input *row output"], moved: Tensor | int = 0) -> Float[Tensor, " input"]:
        """The answer to each input; `moved` says by how many rows it has moved up there."""
        if self.row is None:
            return self.answer.of(logits)
        rows = torch.full((len(logits),), self.row) - moved
        return self.answer.of(logits[torch.arange(len(logits)), rows.to(logits.device)])


def target_answers(
    capture: Capture, target: Target, output: int | str | None, foil: int | str | None, quantity: Quantity
) -> list[TargetAnswer]:
    """One answer per target, or a single one for a model with one answer per text."""
    logits = capture.logits
    assert logits is not None, "Method.run refuses models without logits"
    if quantity == "probability" and logits.shape[-1] < 2:
        raise InputError("the model has a single logit, whose probability is always one: use quantity=logit")
    special = capture.tokens.special
    if logits.dim() == 1:
        removable = tuple(position for position, fixed in enumerate(special) if not fixed)
        (chosen,), against = chosen_outputs(logits[None], target.output if output is None else output, foil)
        return [TargetAnswer(Answer(chosen, against, quantity), None, removable)]
    before = len(capture.tokens) - len(logits)
    if min(target.positions) < before:
        raise InputError(
            f"position {min(target.positions)} belongs to the source text, which has no logits: choose a target from "
            f"{before} to {len(capture.tokens) - 1}"
        )
    rows = [position - before for position in target.positions]
    seen = visible_sources(capture)
    outputs, against = chosen_outputs(logits[rows], output, foil)
    return [
        TargetAnswer(
            Answer(chosen, against, quantity),
            row,
            tuple(p for p, fixed in enumerate(special) if not fixed and p != row + before and seen[row + before, p]),
        )
        for row, chosen in zip(rows, outputs, strict=True)
    ]


def visible_sources(capture: Capture) -> Bool[Tensor, "target source"]:
    """Whether attention, through all blocks, leads from a token to a position."""
    count = len(capture.tokens)
    seen = torch.eye(count, dtype=torch.bool)
    for block in capture.blocks:
        attended = block.attention.visible().cpu().float() @ seen[block.keys].float() > 0
        seen[block.queries] |= attended
    return seen


def answer_assumptions(capture: Capture, target: Target, quantity: Quantity, foil: int | str | None) -> tuple[str, ...]:
    """What the scores mean for this target."""
    assumed = (f"scores explain the {quantity} of the output{'' if foil is None else ' minus that of the foil'}",)
    if capture.has_single_answer and target.positions != capture.readout:
        assumed += ("the model has a single answer for the whole text: it is explained instead of the position",)
    return assumed
