"""Predictions: the most probable outputs, by name."""

from dataclasses import asdict

import pytest
import torch

from tests.tiny import tiny_subject
from thalweg.capture.target import find_target
from thalweg.files.records import read_as
from thalweg.models.prediction import Outcome, Prediction, percent, prediction

TEXT = "the cat likes the unhappy dog."


def predicted(family: str, text: str = TEXT, **options: object) -> Prediction:
    subject = tiny_subject(family)
    result = prediction(subject, subject.capture(text), **options)  # pyright: ignore[reportArgumentType]
    assert result is not None
    return result


def test_prediction_of_a_classifier_then_probabilities_of_all_classes_sum_to_one() -> None:
    subject = tiny_subject()
    capture = subject.capture(TEXT)
    result = prediction(subject, capture)
    assert result is not None and capture.logits is not None
    assert result.outcomes[0].output == int(capture.logits.argmax())
    assert result.probability == pytest.approx(float(capture.logits.softmax(0).max()))
    assert sum(outcome.probability or 0 for outcome in result.outcomes) == pytest.approx(1)
    assert result.name == subject.output_name(result.outcomes[0].output)


def test_prediction_of_a_language_model_then_is_the_next_token_with_runners_up() -> None:
    subject = tiny_subject("gpt2")
    capture = subject.capture(TEXT)
    result = prediction(subject, capture, include=(7,))
    assert result is not None and capture.logits is not None
    chances = capture.logits[-1].softmax(0)
    assert [outcome.output for outcome in result.outcomes[:5]] == chances.topk(5).indices.tolist()
    seven = result.find(7)
    assert seven is not None and seven.probability == pytest.approx(float(chances[7]))
    assert [outcome.probability for outcome in result.runners_up[:4]] == pytest.approx(
        chances.topk(5).values[1:].tolist()
    )


def test_prediction_at_another_position_then_is_read_there() -> None:
    subject = tiny_subject("gpt2")
    capture = subject.capture(TEXT)
    result = prediction(subject, capture, find_target(capture, 1))
    assert result is not None and capture.logits is not None
    assert result.outcomes[0].output == int(capture.logits[1].argmax())


def test_prediction_of_several_positions_then_is_none() -> None:
    subject = tiny_subject("gpt2")
    capture = subject.capture(TEXT)
    assert prediction(subject, capture, find_target(capture, "all")) is None


def test_prediction_when_labels_are_independent_then_probabilities_are_too() -> None:
    subject = tiny_subject()
    subject.model.config.problem_type = "multi_label_classification"
    capture = subject.capture(TEXT)
    result = prediction(subject, capture)
    assert result is not None and capture.logits is not None
    assert result.probability == pytest.approx(float(torch.sigmoid(capture.logits.max())))


def test_prediction_when_written_and_read_then_is_the_same() -> None:
    result = predicted("bert")
    assert read_as(Prediction, asdict(result)) == result


def test_outcome_without_a_probability_then_is_only_a_name() -> None:
    assert str(Outcome(0, "score", None)) == "score"
    assert str(Outcome(0, "good", 0.5)) == "good (50.0 %)"
    assert [percent(share) for share in (1.0, 0.0, 0.998)] == ["> 99.9 %", "< 0.1 %", "99.8 %"]
