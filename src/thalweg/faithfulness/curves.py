"""The answer as tokens are removed or restored in the order of a ranking."""

from math import ceil

import numpy as np
from jaxtyping import Float

from thalweg.decompose.edits import Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.statistics import Limits
from thalweg.ranks import centred_ranks, correlations

BINS = (0.01, 0.05, 0.10, 0.20, 0.50)  # shares of the tokens (ERASER)

Curve = Float[np.ndarray, " step"]


def after_removing(ranking: Ranking, counts: list[int], operator: Operator) -> Curve:
    """The answer without the top `count` tokens, for each count."""
    return ranking.case.scorer([ranking.case.without(ranking.order[:count], operator) for count in counts])


def with_only(ranking: Ranking, counts: list[int], operator: Operator) -> Curve:
    """The answer with only the top `count` tokens and those that cannot be removed, for each count."""
    return ranking.case.scorer([ranking.case.without(ranking.order[count:], operator) for count in counts])


def bin_counts(tokens: int) -> list[int]:
    """The number of tokens in each of ERASER's bins, rounded up."""
    return [ceil(share * tokens) for share in BINS]


def eraser_limits(low: float, high: float) -> Limits:
    """The smallest and largest mean drop over the bins and the empty one, which is always zero."""
    largest = (high - low) * len(BINS) / (len(BINS) + 1)
    return -largest, largest


def area(curve: Curve) -> float:
    """The area under a curve over shares from 0 to 1, by the trapezoidal rule."""
    return float((curve[1:] + curve[:-1]).sum() / 2 / (len(curve) - 1))


def spearman(first: Float[np.ndarray, " token"], second: Float[np.ndarray, " token"]) -> float | None:
    """Spearman's rank correlation; None if one side is constant."""
    correlation = float(correlations(centred_ranks(np.stack([first, second])))[0, 1])
    return None if np.isnan(correlation) else correlation
