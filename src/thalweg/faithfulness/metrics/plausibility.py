import numpy as np

from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="plausibility", paper="DeYoung et al. 2020", limits=(0.0, 1.0))
def plausibility(ranking: Ranking) -> float | None:
    """Average precision of the ranking against human rationales: what convinces people, not what is faithful.

    The mean, over the marked tokens, of the share of marked tokens among all that rank at least as high. None if the
    example has no rationale, or if all tokens or none are marked.
    """
    marked = ranking.case.rationale
    if not marked:
        return None
    hits = np.array([position in marked for position in ranking.order])
    return float((hits.cumsum() / np.arange(1, len(hits) + 1))[hits].mean())
