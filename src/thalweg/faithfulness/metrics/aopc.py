from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import after_removing
from thalweg.faithfulness.registry import metric


@metric(
    direction="higher",
    role="faithfulness",
    paper="Samek et al. 2017; Edin et al. 2025",
    limits=lambda low, high: (low - high, high - low),
    operators=OPERATORS,
)
def aopc(ranking: Ranking, operator: Operator) -> float:
    """Average drop of the answer's probability as tokens are removed one by one, highest first.

    (1/m) Σ_{k=1..m} p(x) − p(x without the top k of m tokens). Its scale depends on the model, so values of different
    models cannot be compared (see naopc).
    """
    full, *steps = after_removing(ranking, list(range(len(ranking.order) + 1)), operator)
    return float(full - sum(steps) / len(steps))
