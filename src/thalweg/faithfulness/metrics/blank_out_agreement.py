from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.registry import metric


@metric(
    direction="higher",
    role="agreement",
    paper="after Abnar & Zuidema 2020, with the sign of the change",
    limits=(-1.0, 1.0),
    operators=OPERATORS,
    reference="leave_one_out",
)
def blank_out_agreement(ranking: Ranking, operator: Operator) -> float | None:
    """Spearman's correlation with the effect of removing each token alone: agreement, not truth.

    ρ(score_i, p(x) − p(x without token i)) over the removable tokens. A redundant token has no effect alone. None if
    one side is constant.
    """
    return spearman(ranking.removable_scores, single_effects(ranking.case, operator))
