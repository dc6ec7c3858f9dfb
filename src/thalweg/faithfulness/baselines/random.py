from dataclasses import dataclass

import numpy as np
import torch

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.registry import baseline
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    pass


@baseline(
    params=Params, paper="–", cost="none", guarantee="independent of text and model; fixed by the seed", is_floor=True
)
def random(case: Case, params: Params) -> Maps:
    """Random scores: the floor every method should beat."""
    generator = np.random.default_rng([case.seed, case.number])
    return Maps(torch.from_numpy(generator.random((1, len(case.original)))))
