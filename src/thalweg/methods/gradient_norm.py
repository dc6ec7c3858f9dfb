"""Gradient norm: how strongly the answer reacts to a small change of a token's embedding."""

from dataclasses import dataclass

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.embeddings import Reduction, gradients, reduced
from thalweg.methods.answer_params import GradientParams
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params(GradientParams):
    reduction: Reduction = option("l2", "score of a token's gradient: its L2 norm, mean absolute value or signed sum")


@method(
    params=Params,
    traits=Traits(explains_logit=True, max_tokens_all_targets=256),
    paper="Simonyan et al. 2014; Li et al. 2016",
    cost="one forward pass, and one backward pass per target",
    guarantee="gradient of the real model",
)
def gradient_norm(capture: Capture, target: Target, params: Params) -> Maps:
    """Norm of the answer's gradient at each token's embedding output.

    ‖∂p/∂x_i‖₂ with p the probability of the output and x the embedding output, position included, where the first
    block reads it. Limits: it is local, says how sensitive the answer is and not what a token contributes, and vanishes
    where the probability saturates.
    """
    values, slopes = gradients(capture, params.answers(capture, target))
    return Maps(
        reduced(slopes, params.reduction).expand(len(target.positions), -1),
        figures={params.quantity: float(values.mean())},
        assumed=(
            "the answer is linear around the embedding output",
            f"a token's score is the {params.reduction} of its gradient over the width",
            *params.assumptions(capture, target),
        ),
    )
