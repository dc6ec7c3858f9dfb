"""Learnt tokenizers: deterministic, and readable by transformers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

import thalweg as tw
from tests.encoders.training.corpus import cued
from tests.tiny import byte_level, wordpiece
from thalweg.digests import tokenizer_digest
from thalweg.encoders.training.tokenizer import SPECIAL, learn_tokenizer, prepare_tokenizer, token_ids

TEXTS = cued(200).texts


def test_tokenizer_when_learnt_again_then_is_the_same() -> None:
    first = learn_tokenizer(TEXTS, 80).get_vocab()
    assert all(learn_tokenizer(TEXTS, 80).get_vocab() == first for _ in range(5))
    assert len(first) == 80


def test_tokenizer_when_learnt_then_ignores_case_and_can_be_saved(tmp_path: Path) -> None:
    tokenizer = prepare_tokenizer(learn_tokenizer([*TEXTS, "été été"], 200), 8)
    vocabulary = tokenizer.get_vocab()
    assert [vocabulary[piece] for piece in SPECIAL] == list(range(5))
    assert {"lovely", "##e", "a"} <= set(vocabulary)
    assert tokenizer.tokenize("The Lovely ete 日") == ["the", "lovely", "ete", "[UNK]"]
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == vocabulary
    assert again("The lovely film")["input_ids"] == tokenizer("the LOVELY film")["input_ids"]
    assert list(again("a film")) == ["input_ids", "attention_mask"]
    assert again.model_max_length == 8


def test_ids_when_texts_are_long_then_are_truncated_between_special_tokens() -> None:
    tokenizer = learn_tokenizer(TEXTS, 200)
    long, short = token_ids(tokenizer, ["the film " * 20, "a film"], 6)
    assert (len(long), len(short)) == (6, 4)
    assert (long[0], long[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


def test_texts_when_they_have_no_tokens_then_are_refused() -> None:
    with pytest.raises(tw.InputError, match=r"'\\u200b' has no tokens"):
        token_ids(learn_tokenizer(TEXTS, 200), ["a film", "\u200b"], 6)


def test_tokenizer_when_prepared_then_the_original_is_unchanged() -> None:
    original = wordpiece()
    names = list(original.model_input_names)
    prepare_tokenizer(original, 16)
    assert original.model_input_names == names
    assert original.model_max_length > 16


def test_tokenizer_when_it_has_no_padding_token_then_is_refused() -> None:
    tokenizer = byte_level()
    tokenizer.pad_token = None
    with pytest.raises(tw.InputError, match="no padding token"):
        prepare_tokenizer(tokenizer, 16)


def test_digest_when_a_tokenizer_was_used_with_padding_then_is_the_same() -> None:
    """A run must resume whatever its tokenizer was used for in between."""
    tokenizer = learn_tokenizer(["a witty film", "a dull film"] * 3, 200)
    backend: Any = getattr(tokenizer, "backend_tokenizer")  # noqa: B009 - not every tokenizer has one
    before = tokenizer_digest(tokenizer)
    tokenizer(["a film", "a witty dull film"], padding=True, truncation=True, max_length=4)
    assert backend.padding is not None
    assert tokenizer_digest(tokenizer) == before
