"""Integrated gradients: gradients along a straight path from a blank text to the input."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.answers import TargetAnswer
from thalweg.decompose.embeddings import answers_at, blank_output, copies_at_once, embedding_output, reduced
from thalweg.errors import InputError
from thalweg.methods.answer_params import GradientParams
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.progress import progress


@dataclass(frozen=True)
class Params(GradientParams):
    steps: int = option(50, "number of points on the path")
    start: Literal["blank", "zero"] = option(
        "blank", "start of the path: the text with every removable token replaced by a blank, or states of zeros"
    )


@method(
    params=Params,
    traits=Traits(signed=True, explains_logit=True, cost="high", max_tokens=512, max_tokens_all_targets=32),
    paper="Sundararajan et al. 2017",
    cost="one forward and backward pass per step and target",
    guarantee="scores sum to the difference of the answer between the ends of the path, up to the reported error",
)
def integrated_gradients(capture: Capture, target: Target, params: Params) -> Maps:
    """Gradients along the straight path from a blank text to the input, times the path: signed.

    Σ_d (x_id − x'_id) ∫ ∂p(x' + α(x − x'))/∂x_id dα at the embedding output, by Gauss–Legendre quadrature, p the
    probability of the output. The blank text x' keeps special tokens and the position that a language model reads its
    answer at. The receipt has the answers at both ends and the relative error of the sum of scores against their
    difference (completeness), which falls with more steps. Limits: the answer to the blank text is not neutral, and
    points on the path are not embeddings of any text.
    """
    if params.steps < 1:
        raise InputError(f"steps must be at least 1, got {params.steps}")
    end, rows, ends, blank = embedding_output(capture), [], [], "a state of zeros"
    answers = params.answers(capture, target)
    with progress("integrated gradients") as report:
        for number, answer in enumerate(answers):
            start = torch.zeros_like(end)
            if params.start == "blank":
                start, blank = blank_output(capture, answer.removable)
            rows.append(_integrated(capture, answer, start, end, params.steps))
            with torch.no_grad():
                ends.append(answers_at(capture, [answer], torch.stack([start, end]))[0].tolist())
            report(number + 1, len(answers))
    parts, (low, high) = torch.stack(rows), np.transpose(ends)  # [answer token width], [answer] each
    totals = parts.sum((1, 2)).cpu().numpy()
    errors = np.abs(totals - (high - low)) / np.maximum(np.abs(high - low), 1e-12)
    return Maps(
        reduced(parts, params.reduction).expand(len(target.positions), -1),
        figures={
            "at the start": float(low.mean()),
            "at the end": float(high.mean()),
            "from tokens": float(totals.mean()),
            "sum error": float(errors.max()),
        },
        assumed=(
            f"the path starts where {'every token' if params.start == 'zero' else 'every removable token'} is {blank}",
            f"a token's score is the {params.reduction} of its part over the width",
            *params.assumptions(capture, target),
        ),
    )


def _integrated(
    capture: Capture,
    answer: TargetAnswer,
    start: Float[Tensor, "token width"],
    end: Float[Tensor, "token width"],
    steps: int,
) -> Float[Tensor, "token width"]:
    """(x − x') ⊙ ∫ ∂p/∂x dα, in double precision."""
    points, weights = (torch.from_numpy(nodes).to(end.device) for nodes in np.polynomial.legendre.leggauss(steps))
    mean = torch.zeros_like(end, dtype=torch.float64)
    for batch in torch.arange(steps).split(copies_at_once(capture)):
        alpha = (points[batch] + 1)[:, None, None] / 2  # from −1..1 to 0..1
        states = (start + alpha.to(end.dtype) * (end - start)).detach().requires_grad_()
        with torch.enable_grad():
            (slopes,) = torch.autograd.grad(answers_at(capture, [answer], states).sum(), states)
        mean += torch.einsum("c,ctd->td", weights[batch] / 2, slopes.double())
    return (end - start).double() * mean
