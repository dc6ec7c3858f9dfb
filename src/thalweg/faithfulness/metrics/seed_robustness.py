from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="robustness", paper="Ferrando et al. 2022")
def seed_robustness(ranked: Ranked) -> float | None:
    """Spearman's correlation with the scores on other seeds of the model, where these give the same answer.

    The mean over the other seeds. None where none of them agrees with the model's answer, or there are none.
    """
    case = ranked.case
    others = [seed() for seed in case.seeds]
    same = [one for one in others if one.answer == case.answer and one.movable == case.movable]
    found = [spearman(ranked.movable_scores, ranked.again(one).movable_scores) for one in same]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known else None
