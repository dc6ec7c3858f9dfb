"""gradient_x_input: a signed product, exact where the answer is linear."""

import pytest

import thalweg as tw
from tests.faithfulness.cases import subject_of
from thalweg.capture.target import find_target
from thalweg.decompose.answers import target_answers
from thalweg.decompose.embeddings import embedding_output, gradients

TEXT = "the old dog sees a new cat ."


def test_gradient_x_input_when_taken_then_is_a_signed_dot_product() -> None:
    subject = subject_of("bert")
    capture = subject.capture(TEXT)
    slope = gradients(capture, target_answers(capture, find_target(capture, None), None, None, "probability"))[1][0]
    products = (slope * embedding_output(capture)).double()
    scores = tw.explain(subject, capture, "gradient_x_input").scores[0]
    assert scores == pytest.approx(products.sum(-1).numpy(), abs=1e-6)
    assert scores.min() < 0 < scores.max()
    lengths = tw.explain(subject, capture, "gradient_x_input", reduction="l2").scores[0]
    assert lengths == pytest.approx(products.norm(dim=-1).numpy(), abs=1e-6)


def test_gradient_x_input_when_a_language_model_explains_all_positions_then_each_has_its_own_answer() -> None:
    subject = subject_of("gpt2")
    capture = subject.capture("the key is the key")
    everything = tw.explain(subject, capture, "gradient_x_input", "all").scores
    for position in (0, 2, len(capture.tokens) - 1):
        alone = tw.explain(subject, capture, "gradient_x_input", position).scores[0]
        assert everything[position] == pytest.approx(alone, abs=1e-7)
