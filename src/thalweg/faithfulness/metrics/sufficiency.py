from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import BINS, bin_counts, eraser_limits, with_only
from thalweg.faithfulness.registry import metric


@metric(direction="lower", role="faithfulness", paper="DeYoung et al. 2020", limits=eraser_limits, operators=OPERATORS)
def sufficiency(ranking: Ranking, operator: Operator) -> float:
    """Fall of the answer when only the top tokens are kept.

    (1/(|B|+1)) Σ_{b∈B} p(x) − p(only the top ⌈b·m⌉ of m tokens), B = 1, 5, 10, 20 and 50 %. Tokens that cannot be
    removed are always kept.
    """
    count = len(ranking.order)
    *steps, full = with_only(ranking, [*bin_counts(count), count], operator)
    return float(sum(full - step for step in steps) / (len(BINS) + 1))
