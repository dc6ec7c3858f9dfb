from dataclasses import dataclass

import numpy as np
import torch

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.operators import Operator
from thalweg.faithfulness.registry import baseline
from thalweg.methods.params import option
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    operator: Operator = option("delete", "how the token is removed")


@baseline(params=Params, paper="Li et al. 2016", cost="one pass per token", guarantee="measured on the model itself")
def leave_one_out(case: Case, params: Params) -> Maps:
    """Fall of the answer without each token alone: p(x) − p(x without token i).

    The best possible order if the effects of tokens are additive; a redundant token gets no score.
    """
    scores = np.zeros(len(case.original))
    scores[list(case.removable)] = single_effects(case, params.operator)
    return Maps(torch.from_numpy(scores)[None])
