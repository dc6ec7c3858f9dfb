from thalweg.faithfulness.bounds import aopc_bounds
from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.metrics.aopc import aopc
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="faithfulness", paper="Edin et al. 2025", operators=OPERATORS)
def naopc(ranked: Ranked, operator: Operator) -> float | None:
    """AOPC between the worst and the best that any order of this input's tokens reaches: 0 to 1.

    The bounds are exact for short inputs and found by beam search otherwise; then a ranking may lie a little outside.
    None where all orders are equal.
    """
    low, high = aopc_bounds(ranked.case, operator)
    return None if high - low < 1e-12 else (aopc(ranked, operator) - low) / (high - low)
