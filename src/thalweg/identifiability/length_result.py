"""Identifiability against the length of the text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.jsonable import jsonable

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class LengthPoint:
    """Means over all heads for one piece of text, as in `Head`.

    `identifiable` is the share of heads with that verdict, `locally_unique` the share of those that are at least
    locally unique given the keys; `rows_identifiable` and `rows_locally_unique` are the same shares of rows. A head
    counts by its worst row, so its shares fall with the number of rows alone.
    """

    tokens: int
    rank: float
    null_share: float
    null_share_row_sum: float
    pearson: float
    spearman: float
    movable: float
    identifiable: float
    locally_unique: float
    rows_identifiable: float
    rows_locally_unique: float


@dataclass(frozen=True)
class LengthCurve:
    """Rank, null share, correlation and verdicts against length, one point per piece of text."""

    points: tuple[LengthPoint, ...]
    provenance: Mapping[str, str]

    def lengths(self) -> list[tuple[LengthPoint, int]]:
        """The mean point of every length, with the number of pieces."""
        means = []
        for length in sorted({point.tokens for point in self.points}):
            group = [asdict(point) for point in self.points if point.tokens == length]
            mean = {name: float(np.mean([point[name] for point in group])) for name in group[0] if name != "tokens"}
            means.append((LengthPoint(tokens=length, **mean), len(group)))
        return means

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import length_curve_text

        return length_curve_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Points and means, ready for JSON."""
        return {
            "points": [jsonable(asdict(point)) for point in self.points],
            "means": [jsonable({**asdict(mean), "pieces": count}) for mean, count in self.lengths()],
            "provenance": dict(self.provenance),
        }
