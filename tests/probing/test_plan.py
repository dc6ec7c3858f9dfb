"""Options of a probe run, and the split into training, validation and test sentences."""

from typing import Any

import pytest

import thalweg as tw
from tests.probing.corpus import sentences
from thalweg.probing.plan import ProbePlan, SentenceSplit, sentence_batches

TEXTS = sentences(60)
OPTIONS: dict[str, Any] = {
    "kinds": ("identity",),
    "metrics": ("cosine",),
    "parts": ("whole",),
    "candidates": "sentence",
    "to": 0,
    "seed": 0,
}


def test_split_when_texts_are_repeated_then_no_sentence_is_in_two_sets() -> None:
    split = SentenceSplit.of(TEXTS + TEXTS[::-1], seed=3)
    sets = [set(split.train), set(split.validation), set(split.test)]
    assert sum(map(len, sets)) == len(set().union(*sets)) == len(TEXTS)
    assert len(split.test) == 9
    assert SentenceSplit.of(TEXTS, 3) != SentenceSplit.of(TEXTS, 4)


def test_split_when_there_are_too_few_sentences_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match=r"at least 10 .*got 1"):
        SentenceSplit.of(TEXTS[:1] * 50, 0)
    smallest = SentenceSplit.of(TEXTS[:10], 0)
    assert (len(smallest.train), len(smallest.validation), len(smallest.test)) == (6, 2, 2)


def test_batches_when_shuffled_then_hold_every_text_once() -> None:
    batches = sentence_batches(TEXTS, "0/1")
    assert sorted(text for batch in batches for text in batch) == sorted(TEXTS)
    assert batches == sentence_batches(TEXTS, "0/1")
    assert [len(batch) for batch in sentence_batches(TEXTS)] == [32, 28]


@pytest.mark.parametrize(
    ("to", "pairs"),
    [(0, [(0, 0), (1, 0), (2, 0)]), (1, [(1, 1), (2, 1)]), ("previous", [(1, 0), (2, 1)])],
)
def test_pairs_when_a_model_has_two_layers_then_join_each_layer_with_the_recovered_one(to: Any, pairs: list) -> None:
    assert ProbePlan(**{**OPTIONS, "to": to}).pairs(2) == pairs


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"kinds": ()}, r"kinds .*identity, linear, mlp.* got \[\]"),
        ({"kinds": ("linear", "linear")}, "each once"),
        ({"metrics": ("euclid",)}, "cosine, l2.*euclid"),
        ({"parts": ("phase",)}, "whole, angle, norm.*phase"),
        ({"candidates": "world"}, "vocabulary.*world"),
        ({"to": -1}, "previous.*-1"),
        ({"to": 1, "candidates": "vocabulary"}, "layer 0 only.*to=1"),
        ({"seed": 0.5}, r"seed .*integer, got 0\.5"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_options_when_wrong_then_are_refused_with_their_value(changes: dict, facts: str) -> None:
    with pytest.raises(tw.InputError, match=facts):
        ProbePlan(**{**OPTIONS, **changes})


def test_layer_when_the_model_does_not_have_it_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="0 to 3, got 9"):
        ProbePlan(**{**OPTIONS, "to": 9}).keys(3)
