"""Leave-one-out: fall of the answer without each token alone."""

from dataclasses import dataclass

import torch

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.edits import Operator, batch_tensors, original_sequence, remove_tokens, token_batches
from thalweg.methods.answer_params import AnswerParams
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.progress import progress


@dataclass(frozen=True)
class Params(AnswerParams):
    operator: Operator = option(
        "delete", "how a token is removed: dropped, replaced by the mask token, or padded and hidden from attention"
    )


@method(
    params=Params,
    traits=Traits(signed=True, explains_logit=True, cost="high", max_tokens=512, serves=frozenset({"single sequence"})),
    paper="Li et al. 2016",
    cost="one forward pass per token",
    guarantee="measured on the model itself",
)
def leave_one_out(capture: Capture, target: Target, params: Params) -> Maps:
    """Fall of the answer without each token alone, signed.

    p(x) − p(x without token i), p the probability of the output. Special tokens, the position that a language model
    reads its answer at, and tokens that it does not see are not removed and score zero. The best possible order if the
    effects of tokens are additive. Limits: a redundant token gets no score, and edited texts are unlike the training
    data. Models that read pixels or sound, and encoder-decoders, are not supported; use `occlusion`.
    """
    original, rerun, logits = original_sequence(capture), capture.rerun, capture.logits
    assert rerun is not None
    assert logits is not None
    answers = params.answers(capture, target)
    places = sorted({place for answer in answers for place in answer.removable})
    edited = [remove_tokens(original, (place,), params.operator, rerun.blanks) for place in places]
    scores, done = torch.zeros(len(answers), len(original), dtype=torch.float64), 0
    full = [answer.of(logits[None]).cpu() for answer in answers]
    with progress("leave one out") as report, torch.no_grad():
        for batch in token_batches(edited, 1 if capture.has_single_answer else logits.shape[-1]):
            result = rerun.run(batch_tensors(batch, rerun.blanks.pad, logits.device))["logits"]
            removed = torch.tensor(places[done : done + len(batch)])
            for row, answer in enumerate(answers):
                moved = (removed < (answer.row or 0)).long() if params.operator == "delete" else 0
                scores[row, removed] = full[row] - answer.of(result, moved).cpu()
            done += len(batch)
            report(done, len(edited))
    for row, answer in zip(scores, answers, strict=True):
        row[[place for place in places if place not in answer.removable]] = 0
    return Maps(
        scores.expand(len(target.positions), -1),
        figures={params.quantity: float(torch.cat(full).mean())},
        assumed=(
            {
                "delete": "a removed token is deleted, and later tokens move up",
                "mask": f"a removed token is replaced by {rerun.blanks.label}",
                "pad": "a removed token is replaced by padding that attention does not see",
            }[params.operator],
            "special tokens are never removed and score zero",
            *params.assumptions(capture, target),
        ),
    )
