from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import BINS, after_removing, bin_counts, eraser_limits
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="DeYoung et al. 2020", limits=eraser_limits, operators=OPERATORS)
def comprehensiveness(ranking: Ranking, operator: Operator) -> float:
    """Fall of the answer without the top tokens.

    (1/(|B|+1)) Σ_{b∈B} p(x) − p(x without the top ⌈b·m⌉ of m tokens), B = 1, 5, 10, 20 and 50 %. ERASER's formula
    counts the empty bin, which adds zero; its public code divides by |B|, so published values are 1.2 times these. The
    answer at each step is used as it is, without a running minimum.
    """
    full, *steps = after_removing(ranking, [0, *bin_counts(len(ranking.order))], operator)
    return float(sum(full - step for step in steps) / (len(BINS) + 1))
