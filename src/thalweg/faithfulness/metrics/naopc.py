from thalweg.faithfulness.bounds import aopc_bounds
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.metrics.aopc import aopc
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="Edin et al. 2025", operators=OPERATORS)
def naopc(ranking: Ranking, operator: Operator) -> float | None:
    """AOPC rescaled so that the worst removal order of this input is 0 and the best is 1.

    The bounds are exact for short inputs. Longer inputs use beam search, and a ranking may then lie slightly outside 0
    to 1. None if all orders are equal.
    """
    low, high = aopc_bounds(ranking.case, operator)
    return None if high - low < 1e-12 else (aopc(ranking, operator) - low) / (high - low)
