"""How much of a block's attention has no effect, and how similar the rest is to it: sums over its rows."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.decompose.value_space import ValueSpace
from thalweg.numerics import worst

Moments = Float[Tensor, "6 head"]  # count, Σa, Σe, Σa², Σe², Σae over visible weights a and effective ones e
Lost = Float[Tensor, "2 head"]  # Σ(a − e)², without and with the row-sum constraint


@dataclass(eq=False)
class EffectSums:
    """Sums for each head, and per chunk of rows its parity and the output error of its effective attention."""

    heads: int
    parities: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.moments: Moments = torch.zeros(6, self.heads, dtype=torch.float64)
        self.lost: Lost = torch.zeros(2, self.heads, dtype=torch.float64)

    def add(self, moments: Moments, lost: Lost, parity: float, error: float) -> None:
        self.moments += moments
        self.lost += lost
        self.parities.append(parity)
        self.errors.append(error)

    def add_rows(self, space: ValueSpace, rows: slice, weights: HeadMaps, parity: float) -> tuple[HeadMaps, HeadMaps]:
        """Add a chunk of rows and return its effective attention, without and with the row-sum constraint."""
        effective, with_sum = (space.effective(rows, weights, row_sum) for row_sum in (False, True))
        count = torch.full((len(weights),), float(space.supports[rows].sum()), dtype=torch.float64)
        terms = (weights, effective, weights.square(), effective.square(), weights * effective)  # masked keys are zero
        lost = [(weights - maps).square().sum((1, 2)) for maps in (effective, with_sum)]
        self.add(
            torch.stack([count, *(term.sum((1, 2)).cpu().double() for term in terms)]),
            torch.stack(lost).cpu().double(),
            parity,
            _output_error(space, weights, effective),
        )
        return effective, with_sum

    @property
    def parity(self) -> float:
        return worst(self.parities)

    @property
    def error(self) -> float:
        return worst(self.errors)

    def null_shares(self) -> Lost:
        """Norm of the part without effect, relative to attention's norm."""
        return torch.where(self.lost > 0, self.lost / self.moments[3], 0.0).sqrt()

    def pearson(self) -> list[float]:
        """Correlation of raw and effective attention over all visible weights; one where they are equal."""
        return [
            _correlation(*sums) if lost else 1.0
            for sums, lost in zip(self.moments.T.tolist(), self.lost[0].tolist(), strict=True)
        ]


def _output_error(space: ValueSpace, weights: HeadMaps, effective: HeadMaps) -> float:
    """Output error of effective attention, relative to T's largest singular value and the norm of the row."""
    if effective is weights:
        return 0.0
    missed = (weights - effective) @ space.matrix.to(weights)  # [head row column]
    return float((missed.norm(dim=-1) / weights.norm(dim=-1).clamp_min(torch.finfo(weights.dtype).tiny)).max())


def _correlation(count: float, a: float, e: float, aa: float, ee: float, ae: float) -> float:
    """Pearson's correlation from moments; NaN where one side is constant."""
    covariance = ae - a * e / count
    spread = (aa - a**2 / count) * (ee - e**2 / count)
    return covariance / spread**0.5 if spread > 0 else float("nan")
