"""Baselines: gradients where the first block starts, sums that come out, and nothing left on the model."""

from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.faithfulness.test_scoring import tiny_case
from tests.tiny import snapshot, tiny_subject
from thalweg.faithfulness.case import Case, case_of
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.embedded import answers, embedding_output, gradient
from thalweg.faithfulness.rankers import find_rankers
from thalweg.faithfulness.registry import list_baselines

BASELINES = tuple(list_baselines())


def scores(name: str, case: Case) -> np.ndarray:
    return find_rankers([name])[0](case).scores


def test_baselines_when_listed_then_are_those_of_the_bench() -> None:
    assert set(BASELINES) == {
        "gradient_norm", "gradient_x_input", "integrated_gradients", "leave_one_out", "occlusion", "random",
    }  # fmt: skip
    assert not set(BASELINES) & set(tw.list_methods())


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2", "llama", "electra"])
@pytest.mark.parametrize("name", BASELINES)
def test_baseline_when_run_then_scores_every_token_and_leaves_the_model_alone(name: str, family: str) -> None:
    case = tiny_case(family)
    before = snapshot(case.subject.model)
    found = scores(name, case)
    assert found.shape == (len(case.whole),)
    assert np.isfinite(found).all()
    assert len(set(found[list(case.movable)].round(12))) > 1
    assert snapshot(case.subject.model) == before


def test_gradient_when_taken_then_is_that_of_the_encoder_alone_and_nothing_is_embedded_twice() -> None:
    case = tiny_case("bert")
    model: Any = case.subject.model
    ids, types = torch.tensor([case.whole.ids]), torch.tensor([case.whole.types])
    with torch.no_grad():
        states = model.bert.embeddings(input_ids=ids, token_type_ids=types)
    states.requires_grad_()
    assert torch.allclose(embedding_output(case), states, atol=1e-6)
    top = model.bert.encoder(states).last_hidden_state
    chance = model.classifier(model.bert.pooler(top)).softmax(-1)[0, case.answer.output]
    (slope,) = torch.autograd.grad(chance, states)
    assert torch.allclose(gradient(case)[1], slope[0], atol=1e-6)
    twice = model(inputs_embeds=states, token_type_ids=types).logits.softmax(-1)[0, case.answer.output]
    (wrong,) = torch.autograd.grad(twice, states)
    assert not torch.allclose(slope, wrong, atol=1e-3 * float(slope.abs().max()))
    assert not torch.allclose(twice, chance, atol=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "electra"])
def test_states_when_put_back_then_the_answer_is_the_models_own(family: str) -> None:
    case = tiny_case(family)
    with torch.no_grad():
        found = answers(case, embedding_output(case))
    assert float(found) == pytest.approx(float(case.scorer([case.whole])[0]), abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "gpt2", "electra"])
@pytest.mark.parametrize("start", ["blank", "zero"])
def test_integrated_gradients_when_summed_then_are_the_difference_of_both_ends(family: str, start: str) -> None:
    case = tiny_case(family)
    name = f"integrated_gradients:steps=100:start={start}"
    (ranker,) = find_rankers([name])
    found = ranker(case).scores
    error = ranker.sum_error(case)
    assert error is not None
    assert error < 1e-3
    if start == "blank":
        ends = case.scorer([case.whole, case.without(case.movable, "mask")])
        assert found.sum() == pytest.approx(ends[0] - ends[1], abs=1e-4)
        fixed = [place for place in range(len(case.whole)) if place not in case.movable]
        assert np.abs(found[fixed]).max() < 1e-6


def test_gradient_x_input_when_taken_then_has_a_sign() -> None:
    case = tiny_case("bert")
    states, slope = gradient(case)
    assert scores("gradient_x_input", case) == pytest.approx((states * slope).sum(-1).numpy(), abs=1e-6)


def test_leave_one_out_when_asked_for_an_operator_then_uses_it() -> None:
    case = tiny_case("bert")
    found = scores("leave_one_out:operator=mask", case)
    assert found[list(case.movable)] == pytest.approx(single_effects(case, "mask"))
    assert scores("occlusion:window=1", case) == pytest.approx(found)


def test_random_when_asked_again_then_is_the_same_for_a_seed_only() -> None:
    subject = tiny_subject("bert")
    example = BenchExample("the old dog")
    one, same = (scores("random", case_of(subject, example, 3, seed=5)) for _ in range(2))
    assert (one == same).all()
    assert (one != scores("random", case_of(subject, example, 4, seed=5))).any()
    assert (one != scores("random", case_of(subject, example, 3, seed=6))).any()


def test_inverse_when_ranked_then_turns_the_order_round() -> None:
    case = tiny_case("bert")
    plain, inverse = find_rankers(["gradient_norm"], inverses=True)
    assert inverse.name == "inverse_gradient_norm"
    assert plain(case).order == inverse(case).order[::-1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alchemy", "unknown method 'alchemy'"),
        ("occlusion:window", "cannot be read"),
        ("occlusion:width=3", "has no parameter 'width'"),
        ("inverse_alchemy", "unknown method"),
    ],
)
def test_ranker_when_there_is_none_then_says_what_there_is(name: str, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        find_rankers([name])


def test_method_when_it_can_explain_another_output_then_explains_the_word_that_is_asked_for() -> None:
    case = case_of(tiny_subject("gpt2"), BenchExample("the key", good="the", bad="key"))
    (ranker,) = find_rankers(["alti_logit"])
    asked = tw.explain(
        case.subject, case.capture, "alti_logit", "prediction", output=case.answer.output, foil=case.answer.foil
    )
    assert ranker(case).scores == pytest.approx(asked.scores[0])
