from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import area, with_only
from thalweg.faithfulness.registry import metric


@metric(
    direction="higher",
    role="faithfulness",
    paper="Petsiuk et al. 2018",
    limits=lambda low, high: (low, high),
    operators=OPERATORS,
)
def insertion_area(ranking: Ranking, operator: Operator) -> float:
    """Area under the answer as tokens are restored one by one, highest first; not divided by the full answer."""
    return area(with_only(ranking, list(range(len(ranking.order) + 1)), operator))
