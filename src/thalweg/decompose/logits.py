"""The logit being explained, read from the last hidden states through pieces that are linear at their real inputs."""

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
class ExplainedLogit:
    """One logit (or difference of two logits) per target, and the linear pieces it is read through.

    A classifier pools: its only logit is read from the rows of all tokens. Otherwise every target has a logit of its
    own, read from the row of its position.
    """

    rows: tuple[int, ...]  # positions of the hidden states that are read
    pieces: tuple[Piece, ...]
    choice: Float[Tensor, "logit output"]  # which logits, and with what sign
    value: Float[Tensor, " logit"]
    pooled: bool

    @cached_property
    def live(self) -> list[int]:
        """The rows that the logit depends on; for a classifier often the first only."""
        counts = self.slopes()[0].abs().amax(1) > 0
        return counts.nonzero().flatten().tolist() if self.pooled else list(range(len(self.rows)))

    @property
    def positions(self) -> list[int]:
        """The positions of the live rows."""
        return [self.rows[number] for number in self.live]

    def scores(self, parts: Float[Tensor, "logit source"], count: int) -> Float[Tensor, "target source"]:
        """One row per target; those of a pooled logit are all the same."""
        return parts.expand(count, -1) if self.pooled else parts

    def slopes(self) -> tuple[Float[Tensor, "row width"], Float[Tensor, " logit"]]:
        """The gradient of the logit with respect to each hidden state, and what the biases of the pieces add to it."""
        slope, biases = self.choice, torch.zeros_like(self.value)
        for piece in reversed(self.pieces):
            if piece.bias is not None:
                biases = biases + self.sum_rows(slope * piece.bias.to(slope.dtype))
            slope = piece.transposed(slope)
        return slope, biases

    def sum_rows(self, products: Float[Tensor, "row *rest"]) -> Float[Tensor, " logit"]:
        """Sum the products of rows for each logit."""
        sums = products.flatten(1).sum(1)
        return sums.sum(0, keepdim=True) if self.pooled else sums


def explained_logit(
    capture: Capture, stream: ResidualStream, target: Target, output: int | str | None, foil: int | str | None
) -> ExplainedLogit:
    """The logits that a target stands for, after verifying that the readout leads to what the model returned.

    `output` and `foil` are numbers here: names are resolved where the model's labels are known (`explain`).
    """
    assert capture.logits is not None, "Method.run refuses models without logits"
    if isinstance(stream.readout, Missing):
        raise InputError(f"this method explains a logit, but {stream.readout.reason}")
    exact = working(capture.logits.dtype)
    pooled = capture.logits.dim() == 1
    rows = tuple(range(len(capture.tokens))) if pooled else target.positions
    logits = (capture.logits[None] if pooled else capture.logits[list(rows)]).to(exact)  # [logit output]
    pieces, computed = stream.readout.at(stream.layers[-1].output[list(rows)].to(exact))
    error, allowed = relative_error(computed, logits), allowed_error(capture.logits.dtype, capture.width)
    if not error <= allowed:
        raise ProofError(
            f"the readout should lead from the last layer to the model's logits, but differs by {error:.1e} of their "
            f"size where {allowed:.1e} is allowed"
        )
    choice = _choice(logits, target.output if output is None else output, foil)
    return ExplainedLogit(rows, tuple(pieces), choice, (choice * logits).sum(1), pooled)


def chosen_outputs(
    logits: Float[Tensor, "logit output"], output: int | str | None, foil: int | str | None
) -> tuple[list[int], int | None]:
    """The output that is explained in each row (the one requested, or the model's own choice), and the foil."""
    count = logits.shape[1]
    output, foil = _number("output", output, count), _number("foil", foil, count)
    chosen = logits.argmax(1).tolist() if output is None else [output] * len(logits)
    if foil in chosen:
        raise InputError(f"foil {foil} is the output being explained: choose another one")
    return chosen, foil


def _choice(
    logits: Float[Tensor, "logit output"], output: int | str | None, foil: int | str | None
) -> Float[Tensor, "logit output"]:
    chosen, foil = chosen_outputs(logits, output, foil)
    choice = F.one_hot(torch.tensor(chosen, device=logits.device), logits.shape[1]).to(logits.dtype)
    if foil is not None:
        choice[:, foil] -= 1
    return choice


def _number(name: str, output: int | str | None, count: int) -> int | None:
    if output is None or (isinstance(output, int) and 0 <= output < count):
        return output
    raise InputError(f"{name} must be from 0 to {count - 1} for this model, got {output!r}")


def assumptions(logit: ExplainedLogit, capture: Capture, target: Target) -> tuple[str, ...]:
    """What the scores mean for this target."""
    assumed = ("a token's score is its part of the logit: scores are signed and do not sum to one",)
    if logit.pooled and target.positions != capture.readout:
        assumed += ("the model has a single logit for the whole text: it is explained instead of the position",)
    return assumed


def terms(logit: ExplainedLogit, scores: Tensor, **apart: Tensor) -> dict[str, float]:
    """The sum as figures: the part of the tokens, the other terms, and the error of their sum against the logit.

    With several targets each figure is their mean, and the error the largest. An error is relative to the largest
    term: a logit near zero may be the difference of large ones.
    """
    every_term = {"from tokens": scores.sum(1), **{name.replace("_", " "): term for name, term in apart.items()}}
    total = torch.stack(list(every_term.values())).sum(0)
    size = torch.stack([scores.abs().sum(1), *(term.abs() for term in apart.values()), logit.value.abs()]).amax(0)
    error = ((total - logit.value).abs() / size.clamp_min(torch.finfo(size.dtype).tiny)).max()
    means = {name: float(term.mean()) for name, term in every_term.items()}
    return {"logit": float(logit.value.mean()), **means, "sum error": float(error)}


def require_sum(figures: dict[str, float], capture: Capture) -> None:
    """Raise unless the terms sum to the logit; every layer rounds once more, and the errors add like a random walk."""
    terms = len(capture.tokens) * capture.width
    allowed = len(capture.blocks) ** 0.5 * allowed_error(capture.blocks[0].input.dtype, terms)
    if not figures["sum error"] <= allowed:
        raise ProofError(
            f"the parts of the logit sum to something {figures['sum error']:.1e} of their size away from it, where "
            f"{allowed:.1e} is allowed"
        )
