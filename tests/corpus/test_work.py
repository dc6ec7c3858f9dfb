"""A row says what `explain`, `mixing` and `trust` say of its text alone; what fails is a row too."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.corpus.folders import sentences
from tests.families import PAD
from tests.tiny import tiny_subject
from thalweg.corpus.job import CHARACTERS, Job, make_job
from thalweg.corpus.rows import Row
from thalweg.corpus.shards import Shard, Text
from thalweg.corpus.work import work

METHODS = ("attention_rollout", "alti:measure=l2")


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


def shard_of(texts: list[str]) -> Shard:
    return Shard(0, tuple(Text(number, number + 1, text) for number, text in enumerate(texts)))


def rows_of(subject: tw.Subject, texts: list[str], job: Job | None = None) -> list[Row]:
    return list(work(subject, job or make_job(subject, METHODS), shard_of(texts)).rows)


def test_row_when_texts_go_together_then_says_what_the_text_alone_does(subject: tw.Subject) -> None:
    texts = sentences(12)
    rows = rows_of(subject, texts)
    assert [row["text"] for row in rows] == list(range(12))
    for text, row in zip(texts, rows, strict=True):
        assert row["error"] is None
        assert (row["characters"], row["target"], row["position"], row["token"]) == (len(text), 0, 0, "[CLS]")
        alone = [tw.explain(subject, text, "attention_rollout"), tw.explain(subject, text, "alti", measure="l2")]
        for found, one in zip(alone, row["methods"], strict=True):
            scores = found.scores[0]
            assert row["prediction"] == found.prediction
            assert row["tokens"] == len(found.sources)
            for source in one["sources"]:
                assert source["score"] == pytest.approx(scores[source["position"]], abs=1e-5)
                assert source["token"] == found.sources.pieces[source["position"]]
            sizes = [abs(source["score"]) for source in one["sources"]]
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] == pytest.approx(np.abs(scores).max(), abs=1e-5)
            assert len(sizes) == min(5, len(scores))
            shares = np.abs(scores) / np.abs(scores).sum()
            assert one["entropy"] == pytest.approx(-(shares[shares > 0] * np.log(shares[shares > 0])).sum(), abs=1e-4)
            assert one["special_share"] == pytest.approx(shares[[0, -1]].sum(), abs=1e-5)
            assert one["own_share"] == pytest.approx(shares[0], abs=1e-5)
            assert one["sum"] == pytest.approx(scores.sum(), abs=1e-5)
        (pair,) = row["agreement"]
        assert (pair["method"], pair["other"]) == METHODS


def test_row_when_its_layers_are_asked_then_are_those_of_mixing(subject: tw.Subject) -> None:
    text = sentences(7)[6]
    (row,) = rows_of(subject, [text])
    mixed = tw.mixing(subject, text, ["attention_rollout"]).figures["attention_rollout"]
    layers = [one for one in row["layers"] if one["method"] == "attention_rollout"]
    assert [one["own"] for one in layers] == pytest.approx(mixed.own.tolist(), abs=1e-6)
    assert [one["not_own"] for one in layers] == pytest.approx(mixed.not_own.tolist(), abs=1e-6)
    assert [[one["special"], one["punctuation"], one["content"]] for one in layers] == [
        pytest.approx(kinds, abs=1e-6) for kinds in mixed.by_kind.tolist()
    ]
    assert {one["method"] for one in row["checks"]} == {*METHODS, "certificate"}
    assert all(one["worst"] <= one["allowed"] for one in row["checks"])
    assert row["seconds"] > 0


@pytest.mark.parametrize("certificate", ["values", "full"])
def test_row_when_heads_are_certified_then_says_what_trust_says(
    subject: tw.Subject, certificate: Literal["values", "full"]
) -> None:
    text = sentences(7)[6]
    (row,) = rows_of(subject, [text], make_job(subject, [], certificate=certificate))
    for one, head in zip(row["heads"], tw.trust(subject, text).heads, strict=True):
        assert (one["layer"], one["head"], one["rank"]) == (head.layer, head.head, head.rank)
        assert one["ambiguity"] == head.ambiguity
        by_values = "identifiable" if head.verdict == "identifiable" else "not identifiable by values"
        assert one["verdict"] == (head.verdict if certificate == "full" else by_values)
        for name in ("null_share", "null_share_row_sum", "pearson"):
            assert one[name] == pytest.approx(getattr(head, name), abs=1e-4)
        assert one["spearman"] == (head.spearman if certificate == "full" else None)
    assert {one["verdict"] for one in row["heads"]} != {"identifiable"}


def test_rows_when_all_targets_are_asked_for_then_figures_of_the_text_stand_once(subject: tw.Subject) -> None:
    rows = rows_of(subject, ["the old dog runs"], make_job(subject, ["alti"], "all"))
    assert [(row["target"], row["position"]) for row in rows] == [(n, n) for n in range(6)]
    assert [row["heads"] is not None for row in rows] == [True] + [False] * 5
    assert [row["seconds"] is not None for row in rows] == [True] + [False] * 5
    scores = tw.explain(subject, "the old dog runs", "alti", "all").scores
    assert [row["methods"][0]["own_share"] for row in rows] == pytest.approx(np.diag(scores).tolist(), abs=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_rows_when_the_model_is_of_another_kind_then_are_there(family: str) -> None:
    subject = tiny_subject(family)
    subject.model.config.decoder_start_token_id = PAD
    for row in rows_of(subject, ["the old dog runs", "a new cat is good"], make_job(subject, ["attention_rollout"])):
        assert row["error"] is None
        assert row["prediction"] is not None
        assert row["methods"][0]["sum"] == pytest.approx(1.0, abs=1e-5)


def test_text_when_it_cannot_be_used_then_is_a_row_with_its_error(subject: tw.Subject) -> None:
    job = make_job(subject, ["attention_rollout"], max_tokens=20)
    texts = ["the old dog runs", " ", "the " * 30, "x" * (CHARACTERS + 1), "\u200b", "a cat"]
    shard = Shard(0, (*shard_of(texts).texts, Text(6, 9, error="line 9 of 'a' is no JSON")))
    done = work(subject, job, shard)
    errors = {row["text"]: row["error"] for row in done.rows}
    assert {number for number, error in errors.items() if error is None} >= {0, 5}
    assert "is empty" in errors[1]
    assert "has 32 tokens, and 20 are allowed" in errors[2]
    assert f"has {CHARACTERS + 1} characters" in errors[3]
    assert errors[6] == "line 9 of 'a' is no JSON"
    assert all(len(error or "") <= 501 for error in errors.values())
    assert (done.texts, done.failed) == (7, sum(error is not None for error in errors.values()))
    assert done.first_error == errors[1]


def test_text_when_the_model_fails_on_it_then_others_of_its_batch_do_not_suffer() -> None:
    subject = tiny_subject("bert")
    assert subject.tokenizer is not None
    with torch.no_grad():
        next(subject.model.get_input_embeddings().parameters())[subject.tokenizer.get_vocab()["cat"]] = torch.nan
    rows = rows_of(subject, ["the old dog runs", "the old cat runs", "the bad dog runs"])
    assert ["NaN" in (row["error"] or "") for row in rows] == [False, True, False]
    assert [row["error"] is None for row in rows] == [True, False, True]


def test_method_when_it_fails_then_the_others_are_kept(subject: tw.Subject) -> None:
    job = make_job(subject, ["alti:layer=9", "attention_rollout"])
    done = work(subject, job, shard_of(sentences(3)))
    assert (done.failed, done.incomplete) == (0, 3)
    for row in done.rows:
        broken, good = row["methods"]
        assert "layer 9" in broken["error"]
        assert good["error"] is None
        assert len(good["sources"]) > 0
        assert row["agreement"] == []


def test_maps_when_asked_for_then_are_the_scores_of_every_text(subject: tw.Subject) -> None:
    texts = sentences(3)
    done = work(subject, make_job(subject, ["alti"], "all", maps=True, certificate=None), shard_of(texts))
    for number, text in enumerate(texts):
        found = tw.explain(subject, text, "alti", "all")
        np.testing.assert_allclose(done.maps[f"{number}/alti"], found.scores, atol=1e-5)
        assert done.tokens[str(number)] == list(found.sources.pieces)
    assert all(row["heads"] is None for row in done.rows)


def test_work_when_repeated_then_gives_the_same_to_the_last_digit(subject: tw.Subject) -> None:
    first, second = (rows_of(subject, sentences(9)) for _ in range(2))
    assert [row | {"seconds": 0} for row in first] == [row | {"seconds": 0} for row in second]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"methods": ["alchemy"]}, "unknown method 'alchemy'"),
        ({"methods": ["alti", "alti"]}, "different methods"),
        ({"methods": ["alti:depth=3"]}, "no parameter 'depth'"),
        ({"methods": ["alti:layer"]}, "cannot be read"),
        ({"methods": [], "certificate": None}, "no method and no certificate"),
        ({"methods": ["alti"], "top": 0}, "top was given 0"),
        ({"methods": ["alti"], "batch": 0}, "batch was given 0"),
        ({"methods": ["alti"], "max_tokens": 100_000}, "has positions for"),
    ],
)
def test_job_when_it_makes_no_sense_then_is_refused(subject: tw.Subject, options: dict, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        make_job(subject, **options)


def test_job_when_there_is_no_tokenizer_then_is_refused(subject: tw.Subject, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="without a tokenizer"):
        make_job(tw.load(subject.model), ["alti"])
