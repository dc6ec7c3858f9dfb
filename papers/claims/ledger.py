"""What a claim is, what its experiment found, and what may be said of it."""

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
    """A claim cannot be tested with what is at hand; the message says what is missing."""


@dataclass(frozen=True)
class Figure:
    """A number that was measured, with its interval."""

    what: str
    value: Mean

    def said(self) -> str:
        if self.value.low == self.value.mean == self.value.high:
            return f"{self.what} {_short(self.value.mean)}"
        low, high = _short(self.value.low), _short(self.value.high)
        return f"{self.what} {_short(self.value.mean)} [{low}, {high}]"


@dataclass(frozen=True)
class Effect(Figure):
    """A number that a claim stands or falls with: it must lie above its bound, or below it."""

    bound: float = 0.0
    side: Side = "above"

    @property
    def holds(self) -> bool:
        """Whether the whole interval is on the claimed side of the bound."""
        return self.value.low > self.bound if self.side == "above" else self.value.high < self.bound

    @property
    def fails(self) -> bool:
        """Whether none of the interval is."""
        return self.value.high <= self.bound if self.side == "above" else self.value.low >= self.bound

    def said(self) -> str:
        return f"{super().said()} ({'>' if self.side == 'above' else '<'} {_short(self.bound)}?)"


@dataclass(frozen=True)
class Found:
    """What an experiment found, on which model and data. Figures beside the effects are shown and decide nothing."""

    on: str
    effects: tuple[Effect, ...]
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        assert self.effects, "an experiment that decides nothing"


Experiment = Callable[["Lab"], Found]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, where it stands, and the experiment that tests it."""

    name: str
    paper: str
    where: str
    says: str
    experiment: Experiment


@dataclass(frozen=True)
class Entry:
    """A claim with what became of it. `why` says what is missing where it could not be tested."""

    claim: Claim
    found: Found | None
    why: str | None = None

    @property
    def verdict(self) -> Verdict:
        """All effects must hold; one that clearly does not is enough to say so."""
        if self.found is None:
            return "not testable here"
        if all(one.holds for one in self.found.effects):
            return "holds"
        return "does not hold" if any(one.fails for one in self.found.effects) else "undecided"

    def measured(self) -> list[str]:
        """What was found, effects first, or why nothing was."""
        if self.found is None:
            return [self.why or ""]
        return [one.said() for one in (*self.found.effects, *self.found.figures)]

    def to_dict(self) -> dict[str, Any]:
        claim = self.claim
        said = {"name": claim.name, "paper": PAPERS[claim.paper], "where": claim.where, "says": claim.says}
        found = None if self.found is None else asdict(self.found)
        return {**said, "verdict": self.verdict, "found": found, "why": self.why}


@dataclass(frozen=True)
class Ledger:
    """Claims with their verdicts. A quick run has looked at a few examples only, and decides nothing."""

    entries: tuple[Entry, ...]
    quick: bool
    provenance: Mapping[str, str]

    def counts(self) -> dict[Verdict, int]:
        return {verdict: sum(one.verdict == verdict for one in self.entries) for verdict in VERDICTS}

    def __rich__(self) -> "RenderableType":
        from papers.claims.view import ledger_text

        return ledger_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return jsonable(
            {
                "quick": self.quick,
                "counts": dict(self.counts()),
                "claims": [one.to_dict() for one in self.entries],
                "provenance": dict(self.provenance),
            }
        )


ENTERED: dict[str, Claim] = {}  # by the modules that `reproduce.list_claims` imports


def claim(name: str, paper: str, where: str, says: str) -> Callable[[Experiment], Experiment]:
    """Enter the experiment that follows as the test of a claim."""

    def enter(experiment: Experiment) -> Experiment:
        assert paper in PAPERS and name not in ENTERED
        ENTERED[name] = Claim(name, paper, where, says, experiment)
        return experiment

    return enter


def mean_of(values: "Sequence[float] | Float[np.ndarray, ' input']") -> Mean:
    """The mean over inputs with its interval."""
    return means(np.asarray(values, dtype=np.float64)[:, None])[0]


def as_mean(rate: Rate, count: int) -> Mean:
    return Mean(rate.rate, rate.low, rate.high, count)


def above(first: Rate, second: Rate, count: int) -> Mean:
    """How far one rate is above another; the interval takes both at their worst."""
    return Mean(first.rate - second.rate, first.low - second.high, first.high - second.low, count)


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
