from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.registry import metric


@metric(direction="lower", role="gate", paper="Adebayo et al. 2018")
def randomisation(ranked: Ranked) -> float | None:
    """Spearman's correlation with the scores on the same model, its weights shuffled: about zero if all is well.

    A method that gives nearly the same scores to a model that knows nothing does not read the model. Each parameter's
    numbers are put in a random order, all layers at once. The correlation keeps its sign: by chance its size would be
    large for short texts, while its mean is zero.
    """
    if ranked.case.shuffled is None:
        return None
    return spearman(ranked.movable_scores, ranked.again(ranked.case.shuffled()).movable_scores)
