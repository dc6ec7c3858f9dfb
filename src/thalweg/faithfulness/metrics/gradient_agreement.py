from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.rankers import find_rankers
from thalweg.faithfulness.registry import metric


@metric(
    direction="higher",
    role="agreement",
    paper="Abnar & Zuidema 2020, table 2",
    limits=(-1.0, 1.0),
    reference="gradient_norm",
)
def gradient_agreement(ranking: Ranking) -> float | None:
    """Spearman's correlation with the gradient norm at each token's embedding output: agreement, not truth.

    None if one side is constant.
    """
    (reference,) = find_rankers(["gradient_norm"])
    return spearman(ranking.removable_scores, reference(ranking.case).removable_scores)
