"""Corpora, summaries and query results in the terminal."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

import thalweg as tw
from tests.corpus.folders import IDENTITY, VERSIONS
from tests.corpus.summaries import CLASSES, DULL, hand_made_summary
from thalweg.corpus.query import QueryResult
from thalweg.corpus.shard_store import Counts
from thalweg.corpus.summary import ClassWords, WorstCheck

ESCAPE = "\x1b[31m"


def shown(value: object, width: int = 120) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(value)
    return capture.get()


def test_corpus_when_texts_failed_then_shows_counts_and_the_first_error() -> None:
    corpus = tw.Corpus(
        folder=Path("rows"),
        identity={**IDENTITY, "texts": 10},
        provenance={"model": "some model", **VERSIONS},
        counts=Counts(8, 9, 1, 2, f"line 3 is broken{ESCAPE}"),
        shards=2,
        resumed=3,
        seconds=2.0,
        memory=2**20,
    )
    text = shown(corpus)
    assert "some model   alti, certificate" in text
    assert "8 of 10 texts, 9 rows in 2 shards: rows" in text
    assert "resumed after 3 texts" in text
    assert "2.0 seconds, 2.5 texts per second" in text
    assert "at most 1 MB" in text
    assert "1 texts failed; first error: line 3 is broken" in text
    assert "2 texts lack a method" in text
    assert "\x1b" not in text


def test_summary_when_checks_hold_or_not_then_shows_it() -> None:
    summary = hand_made_summary()
    text = shown(summary)
    assert "3 × text (first text 6): line 7 is broken" in text
    assert "witty 12" in text
    assert "identifiable 75.0%" in text
    assert "every check is within its tolerance" in text
    broken = replace(summary, checks=(WorstCheck("alti", "parity", 20, 2, None, 1e-5, 3, 4),))
    assert "alti: parity exceeds its tolerance on 2 of 20 texts" in shown(broken)


def test_summary_when_there_are_several_pairs_then_lists_their_agreement() -> None:
    (pair,) = hand_made_summary().agreement
    text = shown(hand_made_summary(agreement=(pair, replace(pair, other="decompx"))))
    assert "alti, decompx" in text
    assert "−0.75 to 0.25" in text


def test_summary_when_classes_are_predicted_then_lists_their_words() -> None:
    words = (ClassWords("alti", "negative", (replace(DULL, word=f"dull{ESCAPE}"),)),)
    text = shown(hand_made_summary(classes=CLASSES, words=words))
    assert "negative  12 (60.0%)  96.5 %" in text
    assert "12.5 (5.0 to 20.0)" in text
    assert "\x1b" not in text


def test_query_when_the_terminal_is_narrow_then_shows_a_line_per_cell() -> None:
    result = QueryResult(("token", "scores"), ((f"cat{ESCAPE}", [{"a": 0.123456}, None]),))
    wide = shown(result)
    assert wide.split()[:2] == ["token", "scores"]
    assert "a 0.1235; –" in wide
    assert "\x1b" not in wide
    assert shown(QueryResult(("token", "score"), (("cat", 0.5),)), width=9).split("\n")[:2] == [
        "token cat",
        "score 0.5",
    ]
