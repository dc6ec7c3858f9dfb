import numpy as np

from thalweg.faithfulness.case import Ranked
from thalweg.faithfulness.curves import spearman
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import metric


@metric(direction="higher", role="agreement", paper="Abnar & Zuidema 2020, table 1", operators=OPERATORS)
def blank_out_size_agreement(ranked: Ranked, operator: Operator) -> float | None:
    """Spearman's correlation with how much each token's removal alone changes the answer, up or down: agreement.

    ρ(score_i, |p(x) − p(x without token i)|), as that paper's public code has it. For scores that have no sign, such as
    attention's: they cannot tell a token that speaks for the answer from one that speaks against it.
    """
    return spearman(ranked.movable_scores, np.abs(single_effects(ranked.case, operator)))
