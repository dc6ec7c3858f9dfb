from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import after_removing, area
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="lower", role="faithfulness", paper="Petsiuk et al. 2018", operators=OPERATORS)
def deletion_area(ranked: Ranked, operator: Operator) -> float:
    """The area under the answer as tokens go one by one, the highest first; not divided by the whole answer."""
    return area(after_removing(ranked, list(range(len(ranked.order) + 1)), operator))
