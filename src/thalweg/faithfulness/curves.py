"""What the answer does as tokens are taken away or put back, in the order of a ranking."""

from math import ceil

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.operators import Operator

BINS = (0.01, 0.05, 0.10, 0.20, 0.50)  # shares of the tokens (ERASER)

Curve = Float[np.ndarray, " step"]


def after_removing(ranked: Ranked, counts: list[int], operator: Operator) -> Curve:
    """The answer without the first `count` tokens of the ranking, for each count."""
    return ranked.case.scorer([ranked.case.without(ranked.order[:count], operator) for count in counts])


def with_only(ranked: Ranked, counts: list[int], operator: Operator) -> Curve:
    """The answer with nothing but the first `count` tokens, and those that are never taken away."""
    return ranked.case.scorer([ranked.case.without(ranked.order[count:], operator) for count in counts])


def bin_counts(tokens: int) -> list[int]:
    """How many tokens each of ERASER's bins has: a share of them, rounded up."""
    return [ceil(share * tokens) for share in BINS]


def area(curve: Curve) -> float:
    """Under the curve over shares from 0 to 1, by trapezoids."""
    return float((curve[1:] + curve[:-1]).sum() / 2 / (len(curve) - 1))


def spearman(one: Float[np.ndarray, " token"], other: Float[np.ndarray, " token"]) -> float | None:
    """Correlation of ranks, where equal scores share the mean of their ranks; None where one side is constant.

    1 − 6Σd²/(n(n²−1)) on dense ranks, as public code has it, is something else as soon as two scores are equal.
    """
    ranks = [rankdata(scores) - (len(scores) + 1) / 2 for scores in (one, other)]
    size = float(np.linalg.norm(ranks[0]) * np.linalg.norm(ranks[1]))
    return None if size == 0 else float(ranks[0] @ ranks[1] / size)
