"""Explanations of any text and any question: answered as meant, or refused with the facts."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME, family
from tests.refusals import assert_refused
from tests.tiny import SENTENCE, byte_level, sentence_pieces, tiny_subject, whole_words, wordpiece

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.fixture(scope="module")
def bert() -> tw.Subject:
    return tiny_subject()


BAD_QUESTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown_method": ({"method": "alchemy"}, ("'alchemy'", "attention_rollout")),
    "method_none": ({"method": None}, ("None", "attention_rollout")),
    "method_list": ({"method": ["raw_attention"]}, ("raw_attention",)),
    "unknown_parameter": ({"temperature": 1}, ("'temperature'", "layer")),
    "layer_text": ({"layer": "top"}, ("layer", "'top'")),
    "layer_float": ({"layer": 1.0}, ("layer", "1.0")),
    "layer_bool": ({"layer": True}, ("layer", "True")),
    "layer_list": ({"layer": [0]}, ("layer", "[0]")),
    "layer_none": ({"layer": None}, ("layer", "None")),
    "layer_too_high": ({"layer": 3}, ("layer 3", "0 to 2")),
    "layer_too_low": ({"layer": -4}, ("layer -4", "0 to 2")),
    "head_too_high": ({"head": 4}, ("head", "got 4", "0 to 3")),
    "head_negative": ({"head": -1}, ("head", "got -1", "0 to 3")),
    "head_text": ({"head": "x"}, ("head", "'x'")),
    "residual_too_large": ({"method": "attention_rollout", "residual": 1.5}, ("residual", "1.5", "0 to 1")),
    "residual_nan": ({"method": "attention_rollout", "residual": float("nan")}, ("residual", "nan", "0 to 1")),
    "residual_text": ({"method": "attention_rollout", "residual": "half"}, ("residual", "'half'")),
    "residual_bool": ({"method": "attention_rollout", "residual": True}, ("residual", "True")),
    "target_too_high": ({"target": 13}, ("13", "0 to 12")),
    "target_too_low": ({"target": -14}, ("-14", "0 to 12")),
    "target_list_too_high": ({"target": [0, 13]}, ("13", "0 to 12")),
    "target_empty_list": ({"target": []}, ("[]", "0 to 12")),
    "target_unknown_token": ({"target": "zebra"}, ("'zebra'", "cabinet")),
    "target_ambiguous_token": ({"target": "the"}, ("'the'", "[1, 4, 8]")),
    "target_empty_text": ({"target": ""}, ("''", "cabinet")),
    "target_float": ({"target": 1.5}, ("1.5", "target")),
    "target_list_of_text": ({"target": ["keys"]}, ("keys", "target")),
    "target_list_of_none": ({"target": [None]}, ("None", "target")),
    "target_bytes": ({"target": b"x"}, ("target", "b'x'")),
}


@pytest.mark.parametrize("name", BAD_QUESTIONS)
def test_question_when_unanswerable_then_the_error_has_the_facts(bert: tw.Subject, name: str) -> None:
    question, facts = BAD_QUESTIONS[name]
    assert_refused(bert, lambda: tw.explain(bert, SENTENCE, **question), tw.InputError, *facts)


@pytest.mark.parametrize(
    "target", [np.int64(2), np.array([2]), torch.tensor([2]), (2,)], ids=["int64", "array", "tensor", "tuple"]
)  # fmt: skip
def test_target_when_it_is_a_number_of_another_library_then_is_read_or_refused(bert: tw.Subject, target: Any) -> None:
    expected = tw.explain(bert, SENTENCE, target=2)
    try:
        result = tw.explain(bert, SENTENCE, target=target)
    except tw.InputError:
        return
    assert result.targets.pieces == ("keys",)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_prediction_when_a_bare_encoder_is_explained_then_is_refused() -> None:
    subject = tw.load(BY_NAME["nomic_bert"].build(), wordpiece())
    assert_refused(
        subject,
        lambda: tw.explain(subject, SENTENCE, target="prediction"),
        tw.InputError,
        "no single prediction",
        '"all"',
    )
    assert tw.explain(subject, SENTENCE).scores.shape == (13, 13)


def test_prediction_when_a_masked_model_has_no_mask_then_is_refused_and_with_one_is_read_there() -> None:
    subject = tiny_subject("electra")
    assert_refused(
        subject,
        lambda: tw.explain(subject, SENTENCE, target="prediction"),
        tw.InputError,
        "mask",
        '"all"',
    )
    result = tw.explain(subject, "the [MASK] is old", target="prediction")
    assert result.targets.pieces == ("[MASK]",)
    assert result.sources.pieces == ("[CLS]", "the", "[MASK]", "is", "old", "[SEP]")
    capture = subject.capture("the [MASK] is old")
    assert capture.logits is not None
    assert subject.tokenizer is not None
    assert result.prediction == subject.tokenizer.decode([int(capture.logits[2].argmax())])


@pytest.mark.parametrize("inputs", [["the cat"], ["the cat", "a dog"]], ids=["one", "two"])
def test_explain_and_compare_when_they_get_a_list_then_ask_for_one_example(bert: tw.Subject, inputs: list[str]) -> None:
    for ask in (tw.explain, tw.compare):
        assert_refused(bert, lambda ask=ask: ask(bert, inputs), tw.InputError, "one example")


@pytest.mark.parametrize(
    ("methods", "facts"),
    [
        (["raw_attention"], ("two or more", "['raw_attention']")),
        (["raw_attention", "raw_attention"], ("different",)),
        ([], ("two or more", "[]")),
        ("raw_attention", ("'raw_attention'", "list")),
        (["raw_attention", "alchemy"], ("'alchemy'", "attention_rollout")),
        (None, ("None",)),
    ],
    ids=["one", "twice", "none", "text", "unknown", "nothing"],
)
def test_compare_when_methods_are_incomparable_then_is_refused(
    bert: tw.Subject, methods: Any, facts: tuple[str, ...]
) -> None:
    assert_refused(bert, lambda: tw.compare(bert, SENTENCE, methods), tw.InputError, *facts)


TEXTS = {
    "plain": SENTENCE,
    "emoji": "the cat 😀😂 is old",
    "family_emoji": "the 👨\u200d👩\u200d👧 story",
    "flags": "🇳🇱 film",
    "right_to_left": "مرحبا the שלום",
    "cjk": "日本 film 日",
    "combining": "cafe\u0301 the e\u0301\u0301",
    "capitals_that_grow": "İstanbul the ẞ ﬁlm",
    "newlines_and_tabs": "the\ncat\r\n\tis  old\u00a0dog",
    "long_word": "the " + "un" * 200 + " film",
    "many_x": "x" * 50,
    "markup": "<b>the</b> [red]cat[/red] </script> &amp; {{ x }}",
    "control": "the \x1b[2J cat \x07\x00 is",
    "mask_inside": "the [MASK] is old",
    "repeated": "the the the the",
    "punctuation": "...!!!???",
    "apostrophes": "don't 'the' cat-dog",
}


@cache
def long_subject(kind: str) -> tw.Subject:
    makers = (wordpiece, byte_level, sentence_pieces, whole_words)
    build = family("bert", "classification", max_position_embeddings=512).build
    return tw.load(build(), {make.__name__: make for make in makers}[kind]())


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", ["wordpiece", "byte_level", "sentence_pieces", "whole_words"])
def test_text_when_it_is_unusual_then_tokens_and_words_keep_their_places(kind: str, name: str) -> None:
    text, subject = TEXTS[name], long_subject(kind)
    result = tw.explain(subject, text, "raw_attention", target="all")
    tokens = result.sources
    assert all(piece for piece in tokens.pieces)
    for place, (span, special) in enumerate(zip(tokens.spans, tokens.special, strict=True)):
        if span is not None and text[slice(*span)].strip():
            assert not special
            assert (tokens.surface(place) or tokens.pieces[place]) == text[slice(*span)].strip()
    words = result.words()
    assert all(word for word in words.sources.pieces)
    np.testing.assert_allclose(words.scores.sum(1), 1, atol=1e-5)
    labels = [
        words.sources.surface(place) or words.sources.pieces[place]
        for place, (special, span) in enumerate(zip(words.sources.special, words.sources.spans, strict=True))
        if not special and span is not None and text[slice(*span)].strip()
    ]
    dropped = r"[\s\x00-\x1f\u200d\u0301\ufffd\xa0]"  # by a normaliser of BERT's
    joined, expected = (re.sub(dropped, "", t) for t in ("".join(labels), text))
    assert joined == expected


def test_text_with_repeated_tokens_when_targeted_by_position_then_each_has_its_own_row(
    bert: tw.Subject,
) -> None:
    both = tw.explain(bert, "the the the", "raw_attention", target=[1, 3])
    assert both.targets.spans == ((0, 3), (8, 11))
    for row, position in enumerate((1, 3)):
        alone = tw.explain(bert, "the the the", "raw_attention", target=position)
        np.testing.assert_allclose(both.scores[row], alone.scores[0])
    assert not np.allclose(both.scores[0], both.scores[1])


def test_target_when_it_is_a_token_then_ignores_case_and_counts_from_the_end(
    bert: tw.Subject,
) -> None:
    by_name = tw.explain(bert, SENTENCE, target="Cabinet")
    by_place = tw.explain(bert, SENTENCE, target=5)
    from_end = tw.explain(bert, SENTENCE, target=-8)
    assert by_name.targets.pieces == by_place.targets.pieces == from_end.targets.pieces
    np.testing.assert_array_equal(by_name.scores, by_place.scores)
    np.testing.assert_array_equal(by_name.scores, from_end.scores)
