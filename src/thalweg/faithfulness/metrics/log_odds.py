from math import ceil, log

from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import after_removing
from thalweg.faithfulness.registry import metric

REMOVED_SHARE = 0.2  # of the tokens
TINY = 1e-300  # keeps the logarithm finite when a probability underflows


@metric(
    direction="lower",
    role="faithfulness",
    paper="Shrikumar et al. 2017; Sanyal & Ren 2021",
    limits=(log(TINY), -log(TINY)),
    operators=OPERATORS,
)
def log_odds(ranking: Ranking, operator: Operator) -> float | None:
    """Log ratio of the answer's probability without and with the top fifth of the tokens.

    log p(x without the top ⌈m/5⌉) / p(x). None if the answer is a difference of two probabilities, which may be
    negative.
    """
    if ranking.case.answer.foil is not None:
        return None
    full, without = after_removing(ranking, [0, ceil(REMOVED_SHARE * len(ranking.order))], operator)
    return log(max(float(without), TINY)) - log(max(float(full), TINY))
