from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="plausibility", paper="Ferrando et al. 2023; Yin & Neubig 2022", limits=(0.0, 1.0))
def cue_rank(ranking: Ranking) -> float | None:
    """Reciprocal rank of the deciding word: the subject of a verb, or the evidence of a BLiMP pair.

    If the word has several tokens or occurrences, the highest counts. None if the example has no such word.
    """
    spans = ranking.case.example.cue
    cue = set(ranking.case.positions_in(spans)) if spans else set()
    ranks = [rank for rank, position in enumerate(ranking.order, 1) if position in cue]
    return 1 / ranks[0] if ranks else None
