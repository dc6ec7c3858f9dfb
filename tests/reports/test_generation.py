"""Continuation of a text by a language model."""

from typing import Any

import pytest

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.reports.generation import continue_text


def test_text_when_continued_then_every_new_token_is_the_models_own_choice() -> None:
    subject = tiny_subject("gpt2")
    text, prompt = continue_text(subject, "the keys", 4)
    capture = subject.capture_one(text)
    assert capture.logits is not None and prompt < len(capture.tokens) <= prompt + 4
    assert capture.logits.argmax(-1)[prompt - 1 : -1].tolist() == list(capture.tokens.ids)[prompt:]


@pytest.mark.parametrize(
    ("family", "text", "count", "facts"),
    [
        ("bert", "the cat", 2, ("causal language model",)),
        ("gpt2", [5, 6], 2, ("list", "string")),
        ("gpt2", "the cat", 100, ("100", "64")),
        ("gpt2", "the cat", -1, ("-1", "at least 1")),
    ],
)
def test_generation_when_not_possible_then_the_error_has_the_values(
    family: str, text: Any, count: int, facts: tuple[str, ...]
) -> None:
    with pytest.raises(tw.InputError) as caught:
        continue_text(tiny_subject(family), text, count)
    assert all(fact in str(caught.value) for fact in facts)
