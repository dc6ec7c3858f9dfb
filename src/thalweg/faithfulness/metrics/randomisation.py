from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.registry import metric


@metric(direction="lower", role="gate", paper="Adebayo et al. 2018", limits=(-1.0, 1.0))
def randomisation(ranking: Ranking) -> float | None:
    """Spearman's correlation with the scores on the same model with shuffled weights; near zero for a sound method.

    A method that gives nearly the same scores to a model with permuted weights does not read the model. The entries of
    each parameter are permuted, in all layers at once. The correlation keeps its sign: in short texts its absolute
    value is large by chance, while its mean is zero.
    """
    if ranking.case.shuffled is None:
        return None
    return spearman(ranking.removable_scores, ranking.rank_again(ranking.case.shuffled()).removable_scores)
