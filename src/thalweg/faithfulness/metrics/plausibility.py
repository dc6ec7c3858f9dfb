import numpy as np

from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="plausibility", paper="DeYoung et al. 2020")
def plausibility(ranked: Ranked) -> float | None:
    """Average precision of the ranking against the tokens that people marked: what convinces, not what is faithful.

    The mean over marked tokens of the share of marked ones among all that stand as high. None where the data have no
    rationale, or all tokens or none are marked.
    """
    marked = ranked.case.marked
    if not marked:
        return None
    hits = np.array([place in marked for place in ranked.order])
    return float((hits.cumsum() / np.arange(1, len(hits) + 1))[hits].mean())
