from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="robustness", paper="Ferrando et al. 2022", limits=(-1.0, 1.0))
def seed_robustness(ranking: Ranking) -> float | None:
    """Spearman's correlation with the scores on other seeds of the model that give the same answer.

    The mean over these seeds. None if no other seed gives the model's answer.
    """
    case = ranking.case
    others = [make_case() for make_case in case.other_seeds]
    same = [other for other in others if other.answer == case.answer and other.removable == case.removable]
    values = [spearman(ranking.removable_scores, ranking.rank_again(other).removable_scores) for other in same]
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None
