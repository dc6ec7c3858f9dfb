"""The logit that is explained, read from the last hidden states by pieces that are linear where they stand."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.capture.missing import Missing
from thalweg.capture.prove.linear_path import Piece, allowed_error
from thalweg.capture.prove.mlp import ResidualStream
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.errors import InputError, ProofError
from thalweg.numerics import relative_error, working


@dataclass(frozen=True, eq=False)
class Answer:
    """One logit (or difference of two) per target, and the linear pieces it is read through.

    A classifier pools: its one answer is read from the rows of all tokens. Otherwise every target has the row of
    its own position.
    """

    rows: list[int]  # positions of the hidden states that are read
    pieces: list[Piece]
    choice: Float[Tensor, "answer output"]  # which logits, and with what sign
    value: Float[Tensor, " answer"]
    pooled: bool

    @cached_property
    def live(self) -> list[int]:
        """Which of the rows count for the answer at all: of a classifier often the first only."""
        counts = self.slopes()[0].abs().amax(1) > 0
        return counts.nonzero().flatten().tolist() if self.pooled else list(range(len(self.rows)))

    @property
    def positions(self) -> list[int]:
        """Where the rows that count stand among the tokens."""
        return [self.rows[number] for number in self.live]

    def scores(self, parts: Float[Tensor, "answer source"], count: int) -> Float[Tensor, "target source"]:
        """A row for each target; those of a pooled answer are all the same."""
        return parts.expand(count, -1) if self.pooled else parts

    def slopes(self) -> tuple[Float[Tensor, "row width"], Float[Tensor, " answer"]]:
        """What a hidden state counts for the answer, and what the biases on the way add to it."""
        slope, biases = self.choice, torch.zeros_like(self.value)
        for piece in reversed(self.pieces):
            if piece.bias is not None:
                biases = biases + self.each(slope * piece.bias.to(slope.dtype))
            slope = piece.transposed(slope)
        return slope, biases

    def each(self, products: Float[Tensor, "row *rest"]) -> Float[Tensor, " answer"]:
        """Products of rows added up for each answer."""
        sums = products.flatten(1).sum(1)
        return sums.sum(0, keepdim=True) if self.pooled else sums


def answer(capture: Capture, upper: ResidualStream, target: Target, output: int | None, foil: int | None) -> Answer:
    """The logits that a target stands for, proved: the readout must lead to what the model returned."""
    if capture.logits is None:
        raise InputError(
            "this method explains a logit, and the model returns none: load it with its head (task=...), or use alti"
        )
    if isinstance(upper.readout, Missing):
        raise InputError(f"this method explains a logit, but {upper.readout.reason}")
    exact = working(capture.logits.dtype)
    pooled = capture.logits.dim() == 1
    rows = list(range(len(capture.tokens))) if pooled else list(target.positions)
    logits = (capture.logits[None] if pooled else capture.logits[rows]).to(exact)  # [answer output]
    pieces, made = upper.readout.at(upper.layers[-1].output[rows].to(exact))
    error, allowed = relative_error(made, logits), allowed_error(capture.logits.dtype, capture.width)
    if not error <= allowed:
        raise ProofError(
            f"the readout should lead from the last layer to the model's logits, but is {error:.1e} of their size "
            f"away where {allowed:.1e} is allowed"
        )
    choice = _choice(logits, target.output if output is None else output, foil)
    return Answer(rows, pieces, choice, (choice * logits).sum(1), pooled)


def _choice(
    logits: Float[Tensor, "answer output"], output: int | None, foil: int | None
) -> Float[Tensor, "answer output"]:
    count = logits.shape[1]
    for name, number in (("output", output), ("foil", foil)):
        if number is not None and not 0 <= number < count:
            raise InputError(f"{name} {number} was asked for; the model's outputs are numbered from 0 to {count - 1}")
    chosen = logits.argmax(1)  # [answer]
    if output is not None:
        chosen = torch.full_like(chosen, output)
    if foil is not None and bool((chosen == foil).any()):
        raise InputError(f"foil {foil} is the output that is explained: choose another one")
    choice = F.one_hot(chosen, count).to(logits.dtype)
    if foil is not None:
        choice[:, foil] -= 1
    return choice


def assumptions(found: Answer, capture: Capture, target: Target) -> tuple[str, ...]:
    """What a reader of the scores must know about the target."""
    said = ["a token's score is its part of the logit: scores have a sign and do not sum to one"]
    if found.pooled and target.positions != capture.readout:
        said.append("the model has one answer for the whole text: it is explained, not the position asked for")
    return tuple(said)


def terms(found: Answer, scores: Tensor, **apart: Tensor) -> dict[str, float]:
    """The sum as figures: what came from tokens, what from elsewhere, and how far all is from the logit.

    With several targets each figure is their mean, and the error the largest. An error is relative to the largest of
    the terms: a logit near zero may be the difference of large ones.
    """
    everything = {"from tokens": scores.sum(1), **{name.replace("_", " "): term for name, term in apart.items()}}
    total = torch.stack(list(everything.values())).sum(0)
    size = torch.stack([scores.abs().sum(1), *(term.abs() for term in apart.values()), found.value.abs()]).amax(0)
    error = ((total - found.value).abs() / size.clamp_min(torch.finfo(size.dtype).tiny)).max()
    figures = {"logit": float(found.value.mean())}
    figures.update({name: float(term.mean()) for name, term in everything.items()})
    return {**figures, "sum error": float(error)}


def require_sum(figures: dict[str, float], capture: Capture) -> None:
    """The terms must add up to the logit; every layer rounds once more, and roundings add up like a random walk."""
    terms = len(capture.tokens) * capture.width
    allowed = len(capture.blocks) ** 0.5 * allowed_error(capture.blocks[0].input.dtype, terms)
    if not figures["sum error"] <= allowed:
        raise ProofError(
            f"the parts of the logit add up to something {figures['sum error']:.1e} of their size away from it, where "
            f"{allowed:.1e} is allowed"
        )
