"""Occlusion: fall of the answer when windows of tokens are covered."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.answers import TargetAnswer
from thalweg.decompose.embeddings import answers_at, blank_output, copies_at_once, embedding_output
from thalweg.errors import InputError
from thalweg.methods.answer_params import AnswerParams
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.progress import progress


@dataclass(frozen=True)
class Params(AnswerParams):
    window: int = option(3, "number of neighbouring tokens that are covered together")


@method(
    params=Params,
    traits=Traits(signed=True, explains_logit=True, cost="high", max_tokens=512, max_tokens_all_targets=32),
    paper="Zeiler & Fergus 2014",
    cost="one forward pass per token and target",
    guarantee="measured on the model itself",
)
def occlusion(capture: Capture, target: Target, params: Params) -> Maps:
    """Fall of the answer when a window around the token is covered by blanks, averaged over all such windows.

    mean over windows w ∋ i of p(x) − p(x with blanks at w). Windows slide over the removable tokens: not special, not
    the position that a language model reads its answer at, and seen by it; all others score zero. A blank is the mask
    token, else the unknown token, else a state of zeros. With a window of one token it is leave-one-out with blanks
    instead of deletion. Limits: a blank is a token like any other, and covered texts are unlike the training data.
    """
    if params.window < 1:
        raise InputError(f"window must be at least 1, got {params.window}")
    answers, rows, values, blank = params.answers(capture, target), [], [], ""
    with progress("occlusion") as report, torch.no_grad():
        for number, answer in enumerate(answers):
            covered, blank = blank_output(capture, answer.removable)
            value, falls = _falls(capture, answer, covered, params.window)
            rows.append(falls)
            values.append(value)
            report(number + 1, len(answers))
    return Maps(
        torch.stack(rows).expand(len(target.positions), -1),
        figures={params.quantity: sum(values) / len(values)},
        assumed=(
            f"a covered token is {blank}",
            "the embedding output of a token does not depend on the other tokens",
            "special tokens are never covered and score zero",
            *params.assumptions(capture, target),
        ),
    )


def _falls(
    capture: Capture, answer: TargetAnswer, covered: Float[Tensor, "token width"], window: int
) -> tuple[float, Float[Tensor, " token"]]:
    """(the answer, its mean fall over the windows that cover each token)."""
    assert capture.logits is not None
    own, places = embedding_output(capture), answer.removable
    width = min(window, len(places))
    windows = [places[first : first + width] for first in range(len(places) - width + 1)] if places else []
    full, at_once = answer.of(capture.logits[None]), copies_at_once(capture)
    falls, counts = torch.zeros(2, len(own), dtype=torch.float64, device=own.device)
    for first in range(0, len(windows), at_once):
        chunk = windows[first : first + at_once]
        hidden = torch.zeros(len(chunk), len(own), dtype=torch.bool, device=own.device)
        for copy, positions in enumerate(chunk):
            hidden[copy, list(positions)] = True
        values = answers_at(capture, [answer], torch.where(hidden[..., None], covered, own))[0]
        falls += (full - values) @ hidden.double()
        counts += hidden.sum(0)
    return float(full), (falls / counts.clamp_min(1)).cpu()
