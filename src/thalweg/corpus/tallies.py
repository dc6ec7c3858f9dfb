"""Sums, counts and percentiles by group, added batch by batch: memory grows with the groups, not with the values."""

from collections.abc import Hashable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from thalweg.corpus.summary import Band

LOW_PERCENT, HIGH_PERCENT = 10, 90
SCALE = 1000  # values are rounded to a thousandth for percentiles
OFFSET = 2**41  # rounded values lie between ± OFFSET
CLOSE = 4  # times as many possible keys as values, at most, are counted in an array
LIMIT = 2**12  # of layers, heads and methods in a packed key


class Tally:
    """Counts by integer key, and sums of some columns by the same keys."""

    def __init__(self, columns: int = 0) -> None:
        self.keys = np.empty(0, np.int64)
        self.counts = np.empty(0, np.int64)
        self.sums = np.empty((columns, 0))

    def add(self, keys: np.ndarray, *columns: np.ndarray) -> None:
        """Add values at their keys, in their order."""
        new, place = _grouped(keys)
        counts = np.bincount(place, minlength=len(new))
        sums = [np.bincount(place, column, len(new)) for column in columns]
        merged, place = np.unique(np.concatenate([self.keys, new]), return_inverse=True)
        self.counts = np.bincount(place, np.concatenate([self.counts, counts]), len(merged)).astype(np.int64)
        self.sums = np.array(
            [
                np.bincount(place, np.concatenate([before, column]), len(merged))
                for before, column in zip(self.sums, sums, strict=True)
            ]
        ).reshape(len(self.sums), len(merged))
        self.keys = merged

    def means(self) -> dict[int, tuple[float, ...]]:
        """The means of the columns by key."""
        return dict(zip(self.keys.tolist(), map(tuple, (self.sums / self.counts).T.tolist()), strict=True))


def _grouped(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different keys in order, and the place of every key among them; without sorting if they lie close."""
    if not len(keys) or (width := int(np.ptp(keys)) + 1) > CLOSE * len(keys):
        return np.unique(keys, return_inverse=True)
    shifted = keys - keys.min()
    present = np.zeros(width, bool)
    present[shifted] = True
    return np.flatnonzero(present) + keys.min(), (np.cumsum(present) - 1)[shifted]


class Spread:
    """Values by group for a mean and two percentiles; NaN is left out."""

    def __init__(self) -> None:
        self._means, self._rounded = Tally(1), Tally()

    def add(self, groups: np.ndarray, values: np.ndarray) -> None:
        known = ~np.isnan(values)
        groups, values = groups[known], values[known]
        rounded = np.copysign(np.floor(np.abs(values) * SCALE + 0.5), values).clip(1 - OFFSET, OFFSET - 1)
        self._means.add(groups, values)
        self._rounded.add(groups * (2 * OFFSET) + rounded.astype(np.int64) + OFFSET)

    def bands(self) -> dict[int, Band]:
        """The band of every group that has a value."""
        groups, rounded = np.divmod(self._rounded.keys, 2 * OFFSET)
        means = self._means.means()
        bands = {}
        for group, stop in zip(*np.unique(groups, return_counts=True), strict=True):
            start = np.searchsorted(groups, group)
            part = slice(start, start + stop)
            values, counts = rounded[part] - OFFSET, self._rounded.counts[part]
            (mean,) = means[int(group)]
            bands[int(group)] = _band(mean, (values / SCALE).tolist(), counts.tolist())
        return bands


def _band(mean: float, values: list[float], counts: list[int]) -> Band:
    cumulative = list(accumulate(counts))

    def percentile(percent: int) -> float:
        """The smallest value that at least `percent` per cent of all values do not exceed."""
        return next(
            value for value, count in zip(values, cumulative, strict=True) if 100 * count >= percent * cumulative[-1]
        )

    return Band(mean, percentile(LOW_PERCENT), percentile(HIGH_PERCENT), cumulative[-1])


class Names:
    """Names as integers, in the order of their first appearance; those beyond a limit are not known (−1)."""

    def __init__(self, names: Iterable[Hashable] = (), limit: int | None = None) -> None:
        self.limit = limit
        self._codes: dict[Any, int] = {name: code for code, name in enumerate(names)}

    def __getitem__(self, code: int) -> Any:
        return self.list[code]

    @property
    def list(self) -> list[Any]:
        return [*self._codes]

    def code(self, name: Any) -> int:
        if name is None or (name not in self._codes and self.limit == len(self._codes)):
            return self._codes.get(name, -1)
        return self._codes.setdefault(name, len(self._codes))

    def codes(self, array: Any) -> np.ndarray:
        """The codes of a pyarrow array of strings, −1 for null."""
        encoded = array.dictionary_encode()
        known = np.array([*map(self.code, encoded.dictionary.to_pylist()), -1], np.int64)
        return known[encoded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]


def entries(column: Any) -> tuple[np.ndarray, Any]:
    """The entries of a pyarrow column of lists, and for each the number of the row that holds it."""
    from pyarrow import compute

    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    parents = compute.call_function("list_parent_indices", [array])
    return parents.to_numpy(), compute.call_function("list_flatten", [array])


def numbers(array: Any) -> np.ndarray:
    """A pyarrow column of numbers as floats, NaN for null."""
    return array.cast("float64").to_numpy(zero_copy_only=False)
