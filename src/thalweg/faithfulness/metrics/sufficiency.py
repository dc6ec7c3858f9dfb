from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import BINS, bin_counts, with_only
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="lower", role="faithfulness", paper="DeYoung et al. 2020", operators=OPERATORS)
def sufficiency(ranked: Ranked, operator: Operator) -> float:
    """How far the answer falls if only the highest tokens are kept.

    (1/(|B|+1)) Σ_{b∈B} p(x) − p(the first ⌈b·m⌉ of m tokens), B = 1, 5, 10, 20 and 50 %, and what is never taken away.
    """
    count = len(ranked.order)
    *steps, whole = with_only(ranked, [*bin_counts(count), count], operator)
    return float(sum(whole - step for step in steps) / (len(BINS) + 1))
