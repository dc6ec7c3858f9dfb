"""Entries of rows from scores made by hand."""

from dataclasses import replace
from math import inf, log, nan

import numpy as np
import pytest

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.attribution.result import Attribution
from thalweg.corpus.rows import (
    MAX_ERROR_CHARACTERS,
    agreement_entries,
    check_entries,
    encodable,
    make_row,
    method_entry,
    row_schema,
    shortened,
    word_entries,
)
from thalweg.corpus.shards import CorpusText
from thalweg.receipt import Check, Receipt


@pytest.fixture(scope="module")
def explained() -> Attribution:
    """One target over the sources [CLS] a cat [SEP]."""
    return tw.explain(tiny_subject("bert"), "a cat", "attention_rollout")


def scored(explained: Attribution, *scores: float) -> Attribution:
    return replace(explained, scores=np.array([scores]))


def test_row_when_columns_are_missing_then_they_are_none() -> None:
    row = make_row(CorpusText(3, 9, "a cat"), tokens=4)
    assert list(row) == row_schema().names
    assert (row["text"], row["line"], row["characters"], row["tokens"], row["target"]) == (3, 9, 5, 4, 0)
    assert {name for name, value in row.items() if value is None} >= {"error", "prediction", "methods", "heads"}
    unreadable = make_row(CorpusText(3, 9, error="broken"), error="broken")
    assert (unreadable["digest"], unreadable["characters"], unreadable["error"]) == (None, None, "broken")


def test_method_when_scores_are_signed_then_shares_are_of_their_sizes(explained: Attribution) -> None:
    entry = method_entry(scored(explained, 0.5, -1.0, 0.25, 0.25), "some", target=0, position=0, top=2)
    assert entry["sources"] == [
        {"position": 1, "token": "a", "score": -1.0},
        {"position": 0, "token": "[CLS]", "score": 0.5},
    ]
    shares = [0.25, 0.5, 0.125, 0.125]
    assert entry["entropy"] == pytest.approx(-sum(share * log(share) for share in shares))
    assert entry["special_share"] == 0.25 + 0.125
    assert (entry["own_share"], entry["sum"], entry["error"]) == (0.25, 0.0, None)


def test_method_when_all_scores_are_zero_then_has_no_shares(explained: Attribution) -> None:
    entry = method_entry(scored(explained, 0.0, 0.0, 0.0, 0.0), "some", target=0, position=None, top=9)
    assert [source["position"] for source in entry["sources"]] == [0, 1, 2, 3]
    assert (entry["entropy"], entry["special_share"], entry["own_share"], entry["sum"]) == (None, None, None, 0.0)


def test_words_when_tokens_have_places_then_begin_where_they_stand(explained: Attribution) -> None:
    entries, groups = word_entries(explained.sources)
    assert entries == [{"word": "a", "start": 0}, {"word": "cat", "start": 2}]
    entry = method_entry(scored(explained, 0.5, -1.0, 0.25, 0.25), "some", 0, 0, top=2, words=groups)
    assert entry["word_shares"] == [-0.5, 0.125]
    zero = method_entry(scored(explained, 0.0, 0.0, 0.0, 0.0), "some", 0, 0, top=2, words=groups)
    assert zero["word_shares"] is None
    unplaced = replace(explained.sources, spans=(None,) * 4)
    assert word_entries(unplaced)[0] == [{"word": "a", "start": None}, {"word": "cat", "start": None}]


def test_agreement_when_methods_rank_alike_or_not_then_is_one_or_minus_one(explained: Attribution) -> None:
    rising, falling = scored(explained, 0.1, 0.2, 0.3, 0.4), scored(explained, 0.4, 0.3, 0.2, 0.1)
    entries = agreement_entries({"a": rising, "b": falling, "c": rising}, 0)
    assert [(entry["method"], entry["other"]) for entry in entries] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [entry["correlation"] for entry in entries] == pytest.approx([-1.0, 1.0, -1.0])
    assert agreement_entries({"a": rising}, 0) == []
    constant = scored(explained, 0.25, 0.25, 0.25, 0.25)
    assert agreement_entries({"a": rising, "b": constant}, 0)[0]["correlation"] is None


def test_checks_when_an_error_is_not_finite_then_is_none() -> None:
    receipts = {
        "a": Receipt({"parity": Check((1e-7, 2e-7), 1e-5)}, {}, ()),
        "b": Receipt({"parity": Check((nan, 0.0), 1e-5), "sum_of_parts": Check((inf,), 1e-5)}, {}, ()),
    }
    assert [(entry["method"], entry["identity"], entry["worst"]) for entry in check_entries(receipts)] == [
        ("a", "parity", 2e-7),
        ("b", "parity", None),
        ("b", "sum_of_parts", None),
    ]


def test_error_when_long_then_is_shortened() -> None:
    assert shortened("x" * MAX_ERROR_CHARACTERS) == "x" * MAX_ERROR_CHARACTERS
    assert shortened("x" * 9999) == "x" * MAX_ERROR_CHARACTERS + "…"


def test_piece_when_it_is_half_a_character_then_can_be_written() -> None:
    assert encodable("héllo") == "héllo"
    assert encodable("\udc80") == "\\udc80"
