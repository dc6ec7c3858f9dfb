from dataclasses import dataclass
from typing import Literal

import torch

from thalweg.errors import InputError, MissingExtraError
from thalweg.faithfulness.case import Case
from thalweg.faithfulness.embedded import answers, embedding_output
from thalweg.faithfulness.registry import baseline
from thalweg.methods.params import option
from thalweg.methods.registry import Maps

AT_ONCE = 16  # points of the path that run as one batch


@dataclass(frozen=True)
class Params:
    steps: int = option(50, "points of the path at which the gradient is taken")
    start: Literal["blank", "zero"] = option(
        "blank", "where the path starts: the same text with a blank for every token that can be taken away, or zeros"
    )


@baseline(
    params=Params,
    paper="Sundararajan et al. 2017; computed by Captum",
    cost="a pass and its gradient for every step",
    guarantee="scores add up to the difference of the answer between both ends of the path, up to the error it says",
)
def integrated_gradients(case: Case, params: Params) -> Maps:
    """Gradients along the straight way from a blank text to this one, times the way: with its sign.

    Σ_d (x_id − x'_id) ∫ ∂p(x' + α(x − x'))/∂x_id dα, at the embedding output, by Gauss and Legendre's rule. The answer
    of the start is not neutral by itself, and what lies between is no text.
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise MissingExtraError("integrated gradients need captum: install thalweg[bench]") from error
    if params.steps < 1:
        raise InputError(f"steps was given {params.steps}; expected 1 or more")
    there = embedding_output(case)
    start = torch.zeros_like(there)
    if params.start == "blank":
        start = embedding_output(case, case.without(case.movable, "mask"))
    with torch.enable_grad():
        parts = IntegratedGradients(lambda states: answers(case, states)).attribute(
            there, start, n_steps=params.steps, internal_batch_size=AT_ONCE
        )
    scores = parts.double().sum(-1)  # [1 token]
    with torch.no_grad():
        low, high = answers(case, torch.cat([start, there])).tolist()
    error = abs(float(scores.sum()) - (high - low)) / max(abs(high - low), 1e-12)
    return Maps(
        scores.cpu(),
        figures={"at the start": low, "at the end": high, "from tokens": float(scores.sum()), "sum error": error},
    )
