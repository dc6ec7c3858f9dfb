from dataclasses import dataclass

from thalweg.faithfulness.case import Case
from thalweg.faithfulness.embeddings import gradient
from thalweg.faithfulness.registry import baseline
from thalweg.methods.registry import Maps


@dataclass(frozen=True)
class Params:
    pass


@baseline(
    params=Params,
    paper="Denil et al. 2014; Shrikumar et al. 2017",
    cost="one forward and backward pass",
    guarantee="none",
)
def gradient_x_input(case: Case, params: Params) -> Maps:
    """The answer's gradient times the embedding output, summed over the width, signed: ⟨∂p/∂x_i, x_i⟩."""
    states, slope = gradient(case)
    return Maps((states.double() * slope.double()).sum(-1)[None].cpu())
