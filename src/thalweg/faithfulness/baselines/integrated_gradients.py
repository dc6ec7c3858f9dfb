from dataclasses import dataclass
from typing import Literal

import torch

from thalweg.errors import InputError, MissingExtraError
from thalweg.faithfulness.case import Case
from thalweg.faithfulness.embeddings import answers, embedding_output
from thalweg.faithfulness.registry import baseline
from thalweg.methods.params import option
from thalweg.methods.registry import Maps

BATCH_STEPS = 16  # points of the path per batch


@dataclass(frozen=True)
class Params:
    steps: int = option(50, "number of points on the path")
    start: Literal["blank", "zero"] = option(
        "blank", "start of the path: the text with every removable token replaced by a blank, or zeros"
    )


@baseline(
    params=Params,
    paper="Sundararajan et al. 2017; computed by Captum",
    cost="one forward and backward pass per step",
    guarantee="scores sum to the difference of the answer between the ends of the path, up to the reported error",
)
def integrated_gradients(case: Case, params: Params) -> Maps:
    """Gradients along the straight path from a blank text to the input, times the path: signed.

    Σ_d (x_id − x'_id) ∫ ∂p(x' + α(x − x'))/∂x_id dα at the embedding output, by Gauss–Legendre quadrature. The answer
    at the start is not neutral, and points on the path are not embeddings of any text.
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise MissingExtraError("integrated_gradients needs captum; install thalweg[bench]") from error
    if params.steps < 1:
        raise InputError(f"steps must be at least 1, got {params.steps}")
    end = embedding_output(case)
    start = torch.zeros_like(end)
    if params.start == "blank":
        start = embedding_output(case, case.without(case.removable, "mask"))
    with torch.enable_grad():
        parts = IntegratedGradients(lambda states: answers(case, states)).attribute(
            end, start, n_steps=params.steps, internal_batch_size=BATCH_STEPS
        )
    scores = parts.double().sum(-1)  # [1 token]
    with torch.no_grad():
        low, high = answers(case, torch.cat([start, end])).tolist()
    error = abs(float(scores.sum()) - (high - low)) / max(abs(high - low), 1e-12)
    return Maps(
        scores.cpu(),
        figures={"at the start": low, "at the end": high, "from tokens": float(scores.sum()), "sum error": error},
    )
