from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import after_removing, area
from thalweg.faithfulness.registry import metric


@metric(
    direction="lower",
    role="faithfulness",
    paper="Petsiuk et al. 2018",
    limits=lambda low, high: (low, high),
    operators=OPERATORS,
)
def deletion_area(ranking: Ranking, operator: Operator) -> float:
    """Area under the answer as tokens are removed one by one, highest first; not divided by the full answer."""
    return area(after_removing(ranking, list(range(len(ranking.order) + 1)), operator))
