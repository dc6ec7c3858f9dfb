"""How much of a block's attention has no effect, and how like the rest is to the whole: added up over its rows."""

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
class Sums:
    """Of each head; `errors` are those of the output of effective attention, one for each block of rows."""

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
        """Add a block of rows; returns its effective attention, without and with the row-sum constraint."""
        effective, with_sum = (space.effective(rows, weights, row_sum) for row_sum in (False, True))
        count = torch.full((len(weights),), float(space.supports[rows].sum()), dtype=torch.float64)
        plain = (weights.sum((1, 2)), effective.sum((1, 2)))  # what is hidden is zero in both
        squares = (weights.square(), effective.square(), weights * effective)
        found = (*plain, *(one.sum((1, 2)) for one in squares))
        away = [(weights - one).square().sum((1, 2)) for one in (effective, with_sum)]
        self.add(
            torch.stack([count, *(one.cpu().double() for one in found)]),
            torch.stack(away).cpu().double(),
            parity,
            _error(space, weights, effective),
        )
        return effective, with_sum

    @property
    def parity(self) -> float:
        return worst(self.parities)

    @property
    def error(self) -> float:
        return worst(self.errors)

    def null_shares(self) -> Lost:
        """Norm of the part without effect, relative to attention's."""
        return torch.where(self.lost > 0, self.lost / self.moments[3], 0.0).sqrt()

    def pearson(self) -> list[float]:
        """Correlation of raw and effective attention over all visible weights: one where they are the same."""
        return [
            _correlation(*sums) if lost else 1.0
            for sums, lost in zip(self.moments.T.tolist(), self.lost[0].tolist(), strict=True)
        ]


def _error(space: ValueSpace, weights: HeadMaps, effective: HeadMaps) -> float:
    """How far attention without its null component misses the output: of T's largest singular value, per unit row."""
    if effective is weights:
        return 0.0
    missed = (weights - effective) @ space.matrix.to(weights)  # [head row column]
    return float((missed.norm(dim=-1) / weights.norm(dim=-1).clamp_min(torch.finfo(weights.dtype).tiny)).max())


def _correlation(count: float, one: float, other: float, ones: float, others: float, product: float) -> float:
    """Pearson's correlation from sums; NaN where one side is constant."""
    covariance = product - one * other / count
    spread = (ones - one**2 / count) * (others - other**2 / count)
    return covariance / spread**0.5 if spread > 0 else float("nan")
