"""integrated_gradients: scores sum to the difference of the answer between both ends of the path."""

from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.faithfulness.cases import scores_of, tiny_case
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
def test_integrated_gradients_when_summed_by_hand_then_are_captums(family: str) -> None:
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


def test_integrated_gradients_when_there_are_no_steps_then_are_refused() -> None:
    with pytest.raises(tw.InputError, match="steps must be at least 1, got 0"):
        scores_of("integrated_gradients:steps=0", tiny_case("bert"))
