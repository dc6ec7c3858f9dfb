from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import after_removing
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="Samek et al. 2017; Edin et al. 2025", operators=OPERATORS)
def aopc(ranked: Ranked, operator: Operator) -> float:
    """How far the answer falls on average as tokens go one by one, the highest first.

    (1/m) Σ_{k=1..m} p(x) − p(x without the first k of m tokens). What is high depends on the model: two models' values
    cannot be compared (see naopc).
    """
    whole, *steps = after_removing(ranked, list(range(len(ranked.order) + 1)), operator)
    return float(whole - sum(steps) / len(steps))
