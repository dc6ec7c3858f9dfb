"""Captures of trained models, whose activations are more extreme than random ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import thalweg as tw
from tests.real.models import minilm, reactions, second_seed, smollm
from thalweg.capture.record import Capture

pytestmark = pytest.mark.real


def long_text(shared_data: Path, words: int) -> str:
    return " ".join((shared_data / "long_text" / "alice_in_wonderland.txt").read_text().split()[:words])


def assert_proved(capture: Capture) -> None:
    for block in capture.blocks:
        assert block.parity <= block.tolerance
        assert block.sum_error <= block.tolerance


@pytest.mark.parametrize("load", [minilm, second_seed])
def test_encoder_when_given_a_long_text_then_weights_equal_its_own(
    load: Callable[[], tw.Subject], shared_data: Path
) -> None:
    subject = load()
    assert subject.tokenizer is not None
    text = long_text(shared_data, 300)
    capture = subject.capture(text)
    assert_proved(capture)
    assert len(capture.tokens) > 300
    model = subject.model.from_pretrained(subject.name, attn_implementation="eager")
    with torch.no_grad():
        own = model(**subject.tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    for block, expected in zip(capture.blocks, own, strict=True):
        torch.testing.assert_close(block.weights(), expected[0], atol=1e-5, rtol=1e-3)


def test_classifier_when_explained_then_rows_are_distributions() -> None:
    subject = reactions()
    capture = subject.capture([12, 20, 31, 40, 22, 17, 13])
    assert isinstance(capture, Capture)
    assert_proved(capture)
    assert capture.readout == (0,)
    result = tw.explain(subject, capture)
    assert result.row_sum_error < 1e-5
    assert len(capture.blocks) == 12


def test_language_model_when_explained_then_last_position_is_read_and_its_word_named() -> None:
    subject = smollm()
    result = tw.explain(subject, "The capital of France is")
    assert result.prediction is not None
    assert result.prediction.strip() == "Paris"
    assert len(result.targets) == 1
    assert_proved(subject.capture("The keys to the cabinet"))


def test_language_model_when_left_padded_then_has_the_numbers_it_has_alone() -> None:
    subject = smollm()
    tokenizer = subject.tokenizer
    assert tokenizer is not None
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    texts = ["The keys to the cabinet are on the table", "Hello there"]
    together = subject.capture(tokenizer(texts, return_tensors="pt", padding=True))
    assert isinstance(together, list)
    for text, capture in zip(texts, together, strict=True):
        alone = subject.capture(text)
        assert alone.logits is not None
        torch.testing.assert_close(capture.logits, alone.logits, atol=1e-3, rtol=1e-3)
