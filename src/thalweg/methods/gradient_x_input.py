"""Gradient × input: the first-order effect of each token's embedding on the answer."""

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.embeddings import embedding_output, gradients, reduced
from thalweg.methods.answer_params import GradientParams
from thalweg.methods.registry import Maps, Traits, method


@method(
    params=GradientParams,
    traits=Traits(signed=True, explains_logit=True, max_tokens_all_targets=256),
    paper="Denil et al. 2014; Shrikumar et al. 2017",
    cost="one forward pass, and one backward pass per target",
    guarantee="gradient of the real model",
)
def gradient_x_input(capture: Capture, target: Target, params: GradientParams) -> Maps:
    """Gradient of the answer times the embedding output of each token, signed.

    ⟨∂p/∂x_i, x_i⟩ with p the probability of the output and x the embedding output, position included, where the first
    block reads it; papers also take ‖∂p/∂x_i ⊙ x_i‖₂ (reduction="l2") or the mean absolute value. Limits: scores sum to
    nothing in particular, since the answer is not linear; use `integrated_gradients` for scores with a known sum.
    """
    values, slopes = gradients(capture, params.answers(capture, target))
    parts = slopes.double() * embedding_output(capture).double()  # [answer token width]
    return Maps(
        reduced(parts, params.reduction).expand(len(target.positions), -1),
        figures={params.quantity: float(values.mean())},
        assumed=(
            "the answer is linear from zero to the embedding output, with the gradient at its end",
            f"a token's score is the {params.reduction} of gradient times input over the width",
            *params.assumptions(capture, target),
        ),
    )
