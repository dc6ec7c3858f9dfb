from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.embedded import gradient_norms
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="agreement", paper="Abnar & Zuidema 2020, table 2", reference="gradient_norm")
def gradient_agreement(ranked: Ranked) -> float | None:
    """Spearman's correlation with the gradient's length at each token's embedding output: agreement, not truth.

    None where one side is constant.
    """
    norms = gradient_norms(ranked.case)
    return spearman(ranked.movable_scores, norms[list(ranked.case.movable)])
