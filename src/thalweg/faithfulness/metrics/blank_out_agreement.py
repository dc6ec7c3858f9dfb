from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(
    direction="higher",
    role="agreement",
    paper="after Abnar & Zuidema 2020, with the sign of the change",
    operators=OPERATORS,
    reference="leave_one_out",
)
def blank_out_agreement(ranked: Ranked, operator: Operator) -> float | None:
    """Spearman's correlation with what each token's removal alone does to the answer: agreement, not truth.

    ρ(score_i, p(x) − p(x without token i)) over the tokens that can be taken away. A token whose work another can do
    has no effect alone. None where one side is constant.
    """
    return spearman(ranked.movable_scores, single_effects(ranked.case, operator))
