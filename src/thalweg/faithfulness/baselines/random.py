from dataclasses import dataclass

import numpy as np
import torch

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.registry import baseline
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    pass


@baseline(params=Params, paper="–", cost="nothing", guarantee="knows neither text nor model; the same for a seed")
def random(case: Case, params: Params) -> Maps:
    """Numbers by lot: what a ranking is worth that knows nothing."""
    chance = np.random.default_rng([case.seed, case.number])
    return Maps(torch.from_numpy(chance.random((1, len(case.whole)))))
