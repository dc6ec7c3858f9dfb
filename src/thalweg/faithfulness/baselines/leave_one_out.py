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
    operator: Operator = option("delete", "how the token is taken away")


@baseline(params=Params, paper="Li et al. 2016", cost="one pass per token", guarantee="measured on the real model")
def leave_one_out(case: Case, params: Params) -> Maps:
    """How far the answer falls without each token alone: p(x) − p(x without token i).

    The best order there is where tokens only add up; a token whose work another can do counts nothing.
    """
    scores = np.zeros(len(case.whole))
    scores[list(case.movable)] = single_effects(case, params.operator)
    return Maps(torch.from_numpy(scores)[None])
