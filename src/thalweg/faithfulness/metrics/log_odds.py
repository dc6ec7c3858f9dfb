from math import ceil, log

from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import after_removing
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric

SHARE = 0.2  # of the tokens


@metric(direction="lower", role="faithfulness", paper="Shrikumar et al. 2017; Sanyal & Ren 2021", operators=OPERATORS)
def log_odds(ranked: Ranked, operator: Operator) -> float | None:
    """The logarithm of how much of the answer's probability is left without the highest fifth of the tokens.

    log p(x without the first ⌈m/5⌉) / p(x). None where two outputs are held against each other: their difference may
    be negative.
    """
    if ranked.case.answer.foil is not None:
        return None
    whole, left = after_removing(ranked, [0, ceil(SHARE * len(ranked.order))], operator)
    tiny = 1e-300  # a probability that is no longer seen in double precision
    return log(max(float(left), tiny)) - log(max(float(whole), tiny))
