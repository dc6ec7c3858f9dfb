"""The answer as tokens are removed or restored in the order of a ranking."""

from math import ceil

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.operators import Operator

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


def area(curve: Curve) -> float:
    """The area under a curve over shares from 0 to 1, by the trapezoidal rule."""
    return float((curve[1:] + curve[:-1]).sum() / 2 / (len(curve) - 1))


def spearman(first: Float[np.ndarray, " token"], second: Float[np.ndarray, " token"]) -> float | None:
    """Spearman's rank correlation, with average ranks for ties; None if one side is constant.

    The shortcut 1 − 6Σd²/(n(n²−1)) on dense ranks, found in public code, gives other values as soon as there are ties.
    """
    ranks = [rankdata(scores) - (len(scores) + 1) / 2 for scores in (first, second)]
    size = float(np.linalg.norm(ranks[0]) * np.linalg.norm(ranks[1]))
    return None if size == 0 else float(ranks[0] @ ranks[1] / size)
