from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="plausibility", paper="DeYoung et al. 2020", limits=(0.0, 1.0))
def plausibility_f1(ranking: Ranking) -> float | None:
    """Token F1 of the top tokens against human rationales: what convinces people, not what is faithful.

    As many top tokens are taken as people marked, so precision, recall and F1 are equal, and intersection over union,
    F1/(2 − F1), orders methods in the same way. ERASER takes the dataset's mean share of marked tokens instead. None
    as in `plausibility`.
    """
    marked = ranking.case.rationale
    return len(marked & set(ranking.order[: len(marked)])) / len(marked) if marked else None
