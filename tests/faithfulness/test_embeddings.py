"""Gradients at the embedding output, where the first block reads it."""

from typing import Any

import pytest
import torch

from tests.faithfulness.cases import tiny_case
from tests.tiny import snapshot
from thalweg.faithfulness.embeddings import answers, embedding_output, gradient, gradient_norms


def test_gradient_when_taken_then_is_that_of_the_encoder_alone_and_nothing_is_embedded_twice() -> None:
    case = tiny_case("bert")
    model: Any = case.subject.model
    ids, types = torch.tensor([case.original.ids]), torch.tensor([case.original.type_ids])
    with torch.no_grad():
        states = model.bert.embeddings(input_ids=ids, token_type_ids=types)
    states.requires_grad_()
    assert torch.allclose(embedding_output(case), states, atol=1e-6)
    top = model.bert.encoder(states).last_hidden_state
    probability = model.classifier(model.bert.pooler(top)).softmax(-1)[0, case.answer.output]
    (slope,) = torch.autograd.grad(probability, states)
    assert torch.allclose(gradient(case)[1], slope[0], atol=1e-6)
    assert gradient_norms(case) == pytest.approx(slope[0].norm(dim=-1).numpy(), abs=1e-6)
    twice = model(inputs_embeds=states, token_type_ids=types).logits.softmax(-1)[0, case.answer.output]
    (wrong,) = torch.autograd.grad(twice, states)
    assert not torch.allclose(slope, wrong, atol=1e-3 * float(slope.abs().max()))
    assert not torch.allclose(twice, probability, atol=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "electra"])
def test_states_when_put_back_then_the_answer_is_the_models_own(family: str) -> None:
    case = tiny_case(family)
    before = snapshot(case.subject.model)
    with torch.no_grad():
        answer = answers(case, embedding_output(case))
    assert float(answer) == pytest.approx(float(case.scorer([case.original])[0]), abs=1e-6)
    assert snapshot(case.subject.model) == before
