from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="plausibility", paper="Ferrando et al. 2023; Yin & Neubig 2022")
def cue_rank(ranked: Ranked) -> float | None:
    """One over the rank of the word that decides: the subject of a verb, the evidence of a BLiMP pair.

    Of a word in several tokens, or several places, the highest counts. None where the data name no such word.
    """
    spans = ranked.case.example.cue
    cue = set(ranked.case.touched(spans)) if spans else set()
    places = [rank for rank, place in enumerate(ranked.order, 1) if place in cue]
    return 1 / places[0] if places else None
