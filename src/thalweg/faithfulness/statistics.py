"""Means with intervals over inputs, paired tests between methods, and what may be said from them.

The input is what is drawn: tokens of one text are not independent, so nothing below it is resampled.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm
from scipy.stats import t as student

from thalweg.rates import LEVEL

RESAMPLES = 4000
FLIPS = 9999  # random signs at least; more where many pairs are compared
EXACT_INPUTS = 13  # up to which all 2^n signs are tried
FEWEST = 6  # inputs: with fewer no pattern of signs is rare enough
AT_ONCE = 2**22  # numbers that a block of resamples has

Values = Float[np.ndarray, "input column"]


@dataclass(frozen=True)
class Mean:
    """A mean over inputs with its interval."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Pair:
    """Two methods on the inputs that both have a value for: first − second, and how likely that is by chance."""

    first: str
    second: str
    difference: Mean
    p: float
    corrected: float

    @property
    def differ(self) -> bool:
        return self.corrected < 1 - LEVEL


def means(values: Values, seed: int = 0) -> list[Mean]:
    """Bootstrap intervals of the mean of each column, missing values (NaN) left out.

    Percentiles of the means of resampled inputs, taken a little further out so that they hold for some ten inputs too
    (Hesterberg 2015): α' = Φ(−√(n/(n−1)) t_{n−1}(α)) in place of α. Fewer than `FEWEST` inputs have too few different
    resamples for that: there it is Student's interval.
    """
    found: list[Mean] = [Mean(np.nan, np.nan, np.nan, 0)] * values.shape[1]
    for columns, rows in _alike(~np.isnan(values)):
        count = int(rows.sum())
        if count == 0:
            continue
        own = values[rows][:, columns]
        middle = own.mean(0)
        if count == 1:
            low, high = np.full_like(middle, -np.inf), np.full_like(middle, np.inf)
        elif count < FEWEST:
            reach = float(student.ppf(0.5 + LEVEL / 2, count - 1)) * own.std(0, ddof=1) / count**0.5
            low, high = middle - reach, middle + reach
        else:
            reach = float(student.ppf(0.5 - LEVEL / 2, count - 1)) * (count / (count - 1)) ** 0.5
            tail = float(norm.cdf(reach))
            low, high = np.quantile(_resampled(own, seed), [tail, 1 - tail], axis=0)
        for column, *ends in zip(columns, middle, low, high, strict=True):
            found[column] = Mean(float(ends[0]), float(ends[1]), float(ends[2]), count)
    return found


def pairs(table: Mapping[str, Float[np.ndarray, " input"]], asked: Sequence[tuple[str, str]], seed: int) -> list[Pair]:
    """Paired tests of all the pairs asked for, corrected together by Holm's rule."""
    if not asked:
        return []
    differences = np.stack([table[first] - table[second] for first, second in asked], 1)  # [input pair]
    chances = sign_flips(differences, seed)
    return [
        Pair(first, second, difference, float(p), float(corrected))
        for (first, second), difference, p, corrected in zip(
            asked, means(differences, seed), chances, holm(chances), strict=True
        )
    ]


def sign_flips(differences: Values, seed: int = 0) -> Float[np.ndarray, " column"]:
    """How often random signs give a mean as far from zero: exact for few inputs, 1 where there are too few to tell.

    If two methods are alike, each input's difference might as well have had the other sign.
    """
    chances = np.ones(differences.shape[1])
    for columns, rows in _alike(~np.isnan(differences)):
        own = differences[rows][:, columns]
        count = len(own)
        if count < FEWEST:
            continue
        seen = np.abs(own.sum(0)) * (1 - 1e-12)
        rarer, tried = np.zeros(len(columns)), 0
        for signs in _signs(count, max(FLIPS, 200 * len(chances)), seed):
            rarer += (np.abs(signs @ own) >= seen).sum(0)
            tried += len(signs)
        exact = count <= EXACT_INPUTS
        chances[columns] = rarer / tried if exact else (rarer + 1) / (tried + 1)
        chances[np.array(columns)[np.abs(own).max(0) == 0]] = 1.0
    return chances


def holm(chances: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Corrected for as many tests: the smallest times n, the next times n − 1, and so on, never falling."""
    order = np.argsort(chances, kind="stable")
    scaled = chances[order] * np.arange(len(chances), 0, -1)
    corrected = np.empty_like(chances)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return corrected


def _alike(known: Bool[np.ndarray, "input column"]) -> Iterator[tuple[list[int], Bool[np.ndarray, " input"]]]:
    """Columns that have values for the same inputs, so that they are resampled together."""
    groups: dict[bytes, list[int]] = {}
    for column in range(known.shape[1]):
        groups.setdefault(known[:, column].tobytes(), []).append(column)
    for columns in groups.values():
        yield columns, known[:, columns[0]]


def _resampled(values: Values, seed: int) -> Float[np.ndarray, "resample column"]:
    count = len(values)
    chance = np.random.default_rng([seed, count])
    found, step = [], max(1, AT_ONCE // count)
    for first in range(0, RESAMPLES, step):
        drawn = chance.multinomial(count, np.full(count, 1 / count), min(step, RESAMPLES - first))
        found.append(drawn @ values / count)
    return np.concatenate(found)


def _signs(count: int, wanted: int, seed: int) -> Iterator[Float[np.ndarray, "flip input"]]:
    if count <= EXACT_INPUTS:
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        yield 1.0 - 2.0 * bits
        return
    chance = np.random.default_rng([seed, count, 1])
    step = max(1, AT_ONCE // count)
    for first in range(0, wanted, step):
        yield 1.0 - 2.0 * chance.integers(0, 2, (min(step, wanted - first), count))
