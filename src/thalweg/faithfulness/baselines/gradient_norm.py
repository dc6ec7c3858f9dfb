from dataclasses import dataclass

import torch

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.embeddings import gradient_norms
from thalweg.faithfulness.registry import baseline
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    pass


@baseline(
    params=Params, paper="Simonyan et al. 2014; Li et al. 2016", cost="one forward and backward pass", guarantee="none"
)
def gradient_norm(case: Case, params: Params) -> Maps:
    """Norm of the answer's gradient at each token's embedding output: ‖∂p/∂x_i‖₂."""
    return Maps(torch.from_numpy(gradient_norms(case))[None])
