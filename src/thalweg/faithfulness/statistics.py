"""Means with intervals over inputs, and paired tests between methods.

Inputs are the sampling unit: the tokens of one text are not independent, so nothing smaller is resampled.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm
from scipy.stats import t as student

from thalweg.rates import LEVEL

RESAMPLES = 4000
MIN_SIGN_FLIPS = 9999  # more if many pairs are compared
MAX_EXACT_INPUTS = 13  # up to here all 2^n sign patterns are tried
MIN_INPUTS = 6  # with fewer inputs no sign pattern is rare enough
BLOCK_ENTRIES = 2**22  # numbers in a block of resamples

CONSTANT = 1e-9  # of the possible range: values that differ by less are the same

Values = Float[np.ndarray, "input column"]
Limits = tuple[float, float]  # the smallest and the largest possible value
UNLIMITED: Limits = (-np.inf, np.inf)


@dataclass(frozen=True)
class Mean:
    """A mean over inputs with its interval."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class PairedTest:
    """Two methods on the inputs that both have a value for: first − second, its p-value and Holm's correction."""

    first: str
    second: str
    difference: Mean
    p: float
    corrected: float

    @property
    def differ(self) -> bool:
        return self.corrected < 1 - LEVEL


def means(values: Values, seed: int = 0, limits: Limits = UNLIMITED) -> list[Mean]:
    """Bootstrap intervals of the mean of each column, inside `limits`; missing values (NaN) are left out.

    Percentiles of the means of resampled inputs, widened so that they also hold for about ten inputs (Hesterberg 2015):
    α' = Φ(−√(n/(n−1)) t_{n−1}(α)) in place of α. Fewer than `MIN_INPUTS` inputs have too few distinct resamples;
    they get Student's interval, and a single one the whole range. If all inputs have the same value c, and the limits
    are finite, a share of at most q = 1 − α^{1/n} ≈ 3/n of the population has another one (the rule of three, exact),
    so the mean is between c − q (c − lowest) and c + q (highest − c).
    """
    results = [Mean(np.nan, np.nan, np.nan, 0)] * values.shape[1]
    for columns, rows in _groups(~np.isnan(values)):
        count = int(rows.sum())
        if count == 0:
            continue
        sample = values[rows][:, columns]
        centre = sample.mean(0)
        low, high = _interval(sample, centre, seed, limits)
        for column, *ends in zip(columns, centre, low, high, strict=True):
            results[column] = Mean(float(ends[0]), float(ends[1]), float(ends[2]), count)
    return results


def _interval(
    sample: Values, centre: Float[np.ndarray, " column"], seed: int, limits: Limits
) -> tuple[Float[np.ndarray, " column"], Float[np.ndarray, " column"]]:
    """(low, high) of each column; rounding may take a mean past a limit, but not out of its interval."""
    count, (lowest, highest) = len(sample), limits
    if count == 1:
        return np.minimum(centre, lowest), np.maximum(centre, highest)
    if count < MIN_INPUTS:
        reach = float(student.ppf(0.5 + LEVEL / 2, count - 1)) * sample.std(0, ddof=1) / count**0.5
        low, high = centre - reach, centre + reach
    else:
        reach = float(student.ppf(0.5 - LEVEL / 2, count - 1)) * (count / (count - 1)) ** 0.5
        tail = float(norm.cdf(reach))
        low, high = np.quantile(_resampled_means(sample, seed), [tail, 1 - tail], axis=0)
    if np.isfinite(limits).all():
        constant = np.ptp(sample, axis=0) <= CONSTANT * (highest - lowest)
        others = 1 - (1 - LEVEL) ** (1 / count)
        low = np.where(constant, centre - others * (centre - lowest), low)
        high = np.where(constant, centre + others * (highest - centre), high)
    return np.minimum(centre, np.maximum(low, lowest)), np.maximum(centre, np.minimum(high, highest))


def paired_tests(
    table: Mapping[str, Float[np.ndarray, " input"]],
    pairs: Sequence[tuple[str, str]],
    seed: int,
    limits: Limits = UNLIMITED,
) -> list[PairedTest]:
    """Test the difference of every pair, corrected together by Holm's rule. `limits` are those of a single value."""
    if not pairs:
        return []
    differences = np.stack([table[first] - table[second] for first, second in pairs], 1)  # [input pair]
    p_values, width = sign_flips(differences, seed), limits[1] - limits[0]
    return [
        PairedTest(first, second, difference, float(p), float(corrected))
        for (first, second), difference, p, corrected in zip(
            pairs, means(differences, seed, (-width, width)), p_values, holm(p_values), strict=True
        )
    ]


def sign_flips(differences: Values, seed: int = 0) -> Float[np.ndarray, " column"]:
    """P-values of the sign-flip test: exact for few inputs, 1 if there are too few inputs to tell.

    If two methods are equally good, each input's difference could as well have had the other sign. The p-value is the
    share of sign patterns whose mean is at least as far from zero.
    """
    p_values = np.ones(differences.shape[1])
    for columns, rows in _groups(~np.isnan(differences)):
        sample = differences[rows][:, columns]
        count = len(sample)
        if count < MIN_INPUTS:
            continue
        observed = np.abs(sample.sum(0)) * (1 - 1e-12)
        extreme, tried = np.zeros(len(columns)), 0
        for signs in _sign_patterns(count, max(MIN_SIGN_FLIPS, 200 * len(p_values)), seed):
            extreme += (np.abs(signs @ sample) >= observed).sum(0)
            tried += len(signs)
        exact = count <= MAX_EXACT_INPUTS
        p_values[columns] = extreme / tried if exact else (extreme + 1) / (tried + 1)
        p_values[np.array(columns)[np.abs(sample).max(0) == 0]] = 1.0
    return p_values


def holm(p_values: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Holm's correction: the smallest p-value times n, the next times n − 1, and so on, never decreasing."""
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return corrected


def _groups(known: Bool[np.ndarray, "input column"]) -> Iterator[tuple[list[int], Bool[np.ndarray, " input"]]]:
    """Columns that have values for the same inputs, so that they are resampled together."""
    groups: dict[bytes, list[int]] = {}
    for column in range(known.shape[1]):
        groups.setdefault(known[:, column].tobytes(), []).append(column)
    for columns in groups.values():
        yield columns, known[:, columns[0]]


def _resampled_means(values: Values, seed: int) -> Float[np.ndarray, "resample column"]:
    count = len(values)
    generator = np.random.default_rng([seed, count])
    blocks, step = [], max(1, BLOCK_ENTRIES // count)
    for start in range(0, RESAMPLES, step):
        drawn = generator.multinomial(count, np.full(count, 1 / count), min(step, RESAMPLES - start))
        blocks.append(drawn @ values / count)
    return np.concatenate(blocks)


def _sign_patterns(count: int, flips: int, seed: int) -> Iterator[Float[np.ndarray, "flip input"]]:
    if count <= MAX_EXACT_INPUTS:
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        yield 1.0 - 2.0 * bits
        return
    generator = np.random.default_rng([seed, count, 1])
    step = max(1, BLOCK_ENTRIES // count)
    for start in range(0, flips, step):
        yield 1.0 - 2.0 * generator.integers(0, 2, (min(step, flips - start), count))
