"""integrated_gradients: scores sum to the difference of the answer between both ends of the path."""

from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.faithfulness.cases import scores_of, subject_of, tiny_case
from tests.families import BY_NAME
from thalweg.capture.target import find_target
from thalweg.decompose.answers import target_answers
from thalweg.decompose.embeddings import answers_at, embedding_output
from thalweg.faithfulness.rankers import find_rankers


@pytest.mark.parametrize("family", ["bert", "gpt2", "electra"])
@pytest.mark.parametrize("start", ["blank", "zero"])
def test_integrated_gradients_when_summed_then_are_the_difference_of_both_ends(family: str, start: str) -> None:
    case = tiny_case(family)
    (ranker,) = find_rankers([f"integrated_gradients:steps=100:start={start}"])
    ranking = ranker(case)
    assert ranking.sum_error is not None
    assert ranking.sum_error < 1e-3
    if start == "blank":
        ends = case.scorer([case.original, case.without(case.removable, "mask")])
        assert ranking.scores.sum() == pytest.approx(ends[0] - ends[1], abs=1e-4)
        fixed = [position for position in range(len(case.original)) if position not in case.removable]
        assert np.abs(ranking.scores[fixed]).max() < 1e-6


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_integrated_gradients_when_summed_by_hand_then_are_the_same(family: str) -> None:
    """A midpoint sum over 400 steps, through the model's own encoder and none of our code."""
    case = tiny_case(family)
    model: Any = case.subject.model
    if family == "bert":

        def embed(ids: tuple[int, ...]) -> torch.Tensor:
            return model.bert.embeddings(input_ids=torch.tensor([ids])).detach()

        def probabilities(states: torch.Tensor) -> torch.Tensor:
            return model.classifier(model.bert.pooler(model.bert.encoder(states).last_hidden_state))[0].softmax(-1)

    else:

        def embed(ids: tuple[int, ...]) -> torch.Tensor:
            return model.transformer.wte(torch.tensor([ids])).detach()

        def probabilities(states: torch.Tensor) -> torch.Tensor:
            types = torch.tensor([case.original.type_ids])
            logits = model(inputs_embeds=states, token_type_ids=types).logits
            return logits[0, case.original.answer_position].softmax(-1)

    end, start = embed(case.original.ids), embed(case.without(case.removable, "mask").ids)
    total = torch.zeros_like(end)
    for step in range(400):
        point = (start + (step + 0.5) / 400 * (end - start)).requires_grad_()
        (slope,) = torch.autograd.grad(probabilities(point)[case.answer.output], point)
        total += slope / 400
    expected = ((end - start) * total).sum(-1)[0].numpy()
    assert scores_of("integrated_gradients:steps=100", case) == pytest.approx(expected, abs=2e-5)
    assert np.abs(expected).max() > 1e-4


@pytest.mark.parametrize("name", ["vit", "bart", "llama"])
def test_integrated_gradients_when_captum_computes_them_then_are_the_same(name: str) -> None:
    """The same function of the embedding output, integrated by Captum from zeros."""
    captum = pytest.importorskip("captum.attr")
    capture, subject = captured(BY_NAME[name]), tw.load(BY_NAME[name].build())
    answers = target_answers(capture, find_target(capture, -1), None, None, "probability")
    states = embedding_output(capture)[None].detach()
    expected = captum.IntegratedGradients(lambda copies: answers_at(capture, answers, copies)[0]).attribute(
        states, torch.zeros_like(states), n_steps=20, internal_batch_size=8
    )
    result = tw.explain(subject, capture, "integrated_gradients", -1, steps=20, start="zero")
    assert result.scores[0] == pytest.approx(expected.double().sum(-1)[0].numpy(), abs=1e-6)
    assert np.abs(result.scores).max() > 1e-5


def test_integrated_gradients_when_steps_are_few_then_the_receipt_says_how_far_the_sum_is_off() -> None:
    subject = subject_of("bert")
    few, many = (
        tw.explain(subject, "the old dog sees a cat", "integrated_gradients", steps=steps, start="zero").receipt
        for steps in (1, 64)
    )
    assert many.figures["sum error"] < 1e-4 < few.figures["sum error"]
    change = few.figures["at the end"] - few.figures["at the start"]
    error = abs(few.figures["from tokens"] - change) / abs(change)
    assert few.figures["sum error"] == pytest.approx(error, rel=1e-6)
    assert "the path starts where every token is a state of zeros" in few.assumed


def test_integrated_gradients_when_reduced_otherwise_then_the_sum_is_still_checked() -> None:
    result = tw.explain(subject_of("bert"), "the old dog", "integrated_gradients", reduction="l2")
    assert result.scores.min() >= 0
    assert result.receipt.figures["sum error"] < 1e-3
    assert "the path starts where every removable token is the token [MASK]" in result.receipt.assumed


def test_integrated_gradients_when_there_are_no_steps_then_are_refused() -> None:
    with pytest.raises(tw.InputError, match="steps must be at least 1, got 0"):
        scores_of("integrated_gradients:steps=0", tiny_case("bert"))
