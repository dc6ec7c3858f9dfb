from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="plausibility", paper="DeYoung et al. 2020")
def plausibility_f1(ranked: Ranked) -> float | None:
    """Token F1 of the highest tokens, as many as people marked: what convinces, not what is faithful.

    With as many tokens as are marked, precision, recall and F1 are one number, and intersection over union is
    F1/(2 − F1): it orders methods alike. ERASER takes the mean share of the data instead. None as in `plausibility`.
    """
    marked = ranked.case.marked
    return len(marked & set(ranked.order[: len(marked)])) / len(marked) if marked else None
