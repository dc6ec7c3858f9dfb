from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.bounds import aopc_bounds
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.metrics.aopc import aopc
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="Edin et al. 2025", limits=(0.0, 1.0), operators=OPERATORS)
def naopc(ranking: Ranking, operator: Operator) -> float | None:
    """AOPC rescaled so that the worst removal order of this input is 0 and the best is 1.

    The bounds are exact for short inputs. Longer inputs use beam search; a ranking beyond its bounds is then itself the
    worst or the best order known, so it counts as 0 or 1. None if all orders are equal.
    """
    low, high = aopc_bounds(ranking.case, operator)
    return None if high - low < 1e-12 else min(1.0, max(0.0, (aopc(ranking, operator) - low) / (high - low)))
