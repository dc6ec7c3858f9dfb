from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import BINS, after_removing, bin_counts
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="DeYoung et al. 2020", operators=OPERATORS)
def comprehensiveness(ranked: Ranked, operator: Operator) -> float:
    """How far the answer falls without the highest tokens.

    (1/(|B|+1)) Σ_{b∈B} p(x) − p(x without the first ⌈b·m⌉ of m tokens), B = 1, 5, 10, 20 and 50 %: ERASER counts the
    empty bin, which adds zero. The answer at each step is taken as it is; no running minimum.
    """
    whole, *steps = after_removing(ranked, [0, *bin_counts(len(ranked.order))], operator)
    return float(sum(whole - step for step in steps) / (len(BINS) + 1))
