"""gradient_norm: the length of the gradient, without a sign."""

import pytest

import thalweg as tw
from tests.faithfulness.cases import subject_of
from thalweg.capture.target import find_target
from thalweg.decompose.answers import target_answers
from thalweg.decompose.embeddings import gradients

TEXT = "the old dog sees a new cat ."


def test_gradient_norm_when_taken_then_is_the_length_of_the_gradient() -> None:
    subject = subject_of("bert")
    capture = subject.capture(TEXT)
    slope = gradients(capture, target_answers(capture, find_target(capture, None), None, None, "probability"))[1][0]
    scores = tw.explain(subject, capture, "gradient_norm").scores[0]
    assert scores == pytest.approx(slope.double().square().sum(-1).sqrt().numpy())
    sizes = tw.explain(subject, capture, "gradient_norm", reduction="mean_abs").scores[0]
    assert sizes == pytest.approx(slope.double().abs().mean(-1).numpy())
