import numpy as np

from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.registry import metric


@metric(
    direction="higher", role="agreement", paper="Abnar & Zuidema 2020, table 1", limits=(-1.0, 1.0), operators=OPERATORS
)
def blank_out_size_agreement(ranking: Ranking, operator: Operator) -> float | None:
    """Spearman's correlation with the absolute effect of removing each token alone: agreement, not truth.

    ρ(score_i, |p(x) − p(x without token i)|), as in the paper's public code. Meant for unsigned scores such as
    attention weights, which cannot tell evidence for the answer from evidence against it.
    """
    return spearman(ranking.removable_scores, np.abs(single_effects(ranking.case, operator)))
