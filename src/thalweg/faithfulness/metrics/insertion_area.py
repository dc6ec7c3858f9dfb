from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import area, with_only
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="Petsiuk et al. 2018", operators=OPERATORS)
def insertion_area(ranked: Ranked, operator: Operator) -> float:
    """The area under the answer as tokens come back one by one, the highest first; not divided by the whole answer."""
    return area(with_only(ranked, list(range(len(ranked.order) + 1)), operator))
