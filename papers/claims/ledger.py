"""Claims of the papers, the findings of their experiments, and the verdicts that follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from thalweg.errors import ThalwegError
from thalweg.faithfulness.statistics import Mean, means
from thalweg.jsonable import jsonable
from thalweg.rates import Rate

if TYPE_CHECKING:
    from rich.console import RenderableType

    from papers.claims.lab import Lab

Verdict = Literal["holds", "does not hold", "undecided", "not testable here"]
Side = Literal["above", "below"]
VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "undecided", "not testable here")
PAPERS = {
    "P1": "Brunner et al. 2020, On Identifiability in Transformers",
    "P2": "Bhardwaj et al. 2021, More Identifiable yet Equally Performant Transformers",
    "P3": "Ferrando et al. 2022, Measuring the Mixing of Contextual Information in the Transformer (ALTI)",
    "P4": "Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers",
}


class NotHereError(ThalwegError):
    """A claim cannot be tested because a model or dataset is missing; the message names it."""


@dataclass(frozen=True)
class Figure:
    """A measured number with its interval."""

    label: str
    value: Mean

    def describe(self) -> str:
        if self.value.low == self.value.mean == self.value.high:
            return f"{self.label} {_short(self.value.mean)}"
        low, high = _short(self.value.low), _short(self.value.high)
        return f"{self.label} {_short(self.value.mean)} [{low}, {high}]"


@dataclass(frozen=True)
class Effect(Figure):
    """A number that decides a claim: it must lie above (or below) its bound."""

    bound: float = 0.0
    side: Side = "above"

    @property
    def holds(self) -> bool:
        """Whether the whole interval is on the claimed side of the bound."""
        return self.value.low > self.bound if self.side == "above" else self.value.high < self.bound

    @property
    def fails(self) -> bool:
        """Whether the whole interval is on the other side."""
        return self.value.high <= self.bound if self.side == "above" else self.value.low >= self.bound

    def describe(self) -> str:
        return f"{super().describe()} ({'>' if self.side == 'above' else '<'} {_short(self.bound)}?)"


@dataclass(frozen=True)
class Finding:
    """The outcome of an experiment, and the model and data it ran on. Figures are shown but decide nothing."""

    on: str
    effects: tuple[Effect, ...]
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        assert self.effects, "a finding needs at least one effect"


Experiment = Callable[["Lab"], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, its location in the paper, and the experiment that tests it."""

    name: str
    paper: str
    where: str
    says: str
    experiment: Experiment


@dataclass(frozen=True)
class Entry:
    """A claim and its finding. `reason` says why there is none if the claim could not be tested."""

    claim: Claim
    finding: Finding | None
    reason: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The claim holds if all effects hold, and does not hold if one clearly fails."""
        if self.finding is None:
            return "not testable here"
        if all(effect.holds for effect in self.finding.effects):
            return "holds"
        return "does not hold" if any(effect.fails for effect in self.finding.effects) else "undecided"

    def measured(self) -> list[str]:
        """The measured numbers, effects first, or the reason why there are none."""
        if self.finding is None:
            return [self.reason or ""]
        return [figure.describe() for figure in (*self.finding.effects, *self.finding.figures)]

    def to_dict(self) -> dict[str, Any]:
        claim = self.claim
        described = {"name": claim.name, "paper": PAPERS[claim.paper], "where": claim.where, "says": claim.says}
        finding = None if self.finding is None else asdict(self.finding)
        return {**described, "verdict": self.verdict, "finding": finding, "reason": self.reason}


@dataclass(frozen=True)
class Ledger:
    """Claims with their verdicts. A quick run uses a few examples only and decides nothing."""

    entries: tuple[Entry, ...]
    quick: bool
    provenance: Mapping[str, str]

    def counts(self) -> dict[Verdict, int]:
        return {verdict: sum(entry.verdict == verdict for entry in self.entries) for verdict in VERDICTS}

    def __rich__(self) -> "RenderableType":
        from papers.claims.view import ledger_text

        return ledger_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return jsonable(
            {
                "quick": self.quick,
                "counts": dict(self.counts()),
                "claims": [entry.to_dict() for entry in self.entries],
                "provenance": dict(self.provenance),
            }
        )


CLAIMS: dict[str, Claim] = {}  # filled by the modules that `reproduce` imports


def claim(name: str, paper: str, where: str, says: str) -> Callable[[Experiment], Experiment]:
    """Register the decorated experiment as the test of a claim."""

    def register(experiment: Experiment) -> Experiment:
        assert paper in PAPERS and name not in CLAIMS
        CLAIMS[name] = Claim(name, paper, where, says, experiment)
        return experiment

    return register


def mean_of(values: "Sequence[float] | Float[np.ndarray, ' input']") -> Mean:
    """The mean over inputs with its interval."""
    return means(np.asarray(values, dtype=np.float64)[:, None])[0]


def as_mean(rate: Rate, count: int) -> Mean:
    return Mean(rate.rate, rate.low, rate.high, count)


def above(first: Rate, second: Rate, count: int) -> Mean:
    """Difference of two rates; the interval combines the worst cases of both."""
    return Mean(first.rate - second.rate, first.low - second.high, first.high - second.low, count)


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
