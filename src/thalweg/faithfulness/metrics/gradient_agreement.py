from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.embeddings import gradient_norms
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="agreement", paper="Abnar & Zuidema 2020, table 2", reference="gradient_norm")
def gradient_agreement(ranking: Ranking) -> float | None:
    """Spearman's correlation with the gradient norm at each token's embedding output: agreement, not truth.

    None if one side is constant.
    """
    norms = gradient_norms(ranking.case)
    return spearman(ranking.removable_scores, norms[list(ranking.case.removable)])
