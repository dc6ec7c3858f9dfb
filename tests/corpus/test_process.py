"""Rows agree with `explain`, `mixing` and `trust` on each text alone; failures become rows with an error."""

from typing import Literal

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.corpus.folders import sentences
from tests.families import PAD
from tests.tiny import tiny_subject
from thalweg.corpus.job import MAX_TEXT_CHARACTERS, Job, make_job
from thalweg.corpus.process import learn_wiring, process_shard
from thalweg.corpus.rows import MAX_ERROR_CHARACTERS, Row
from thalweg.corpus.shards import CorpusText, Shard

METHODS = ("attention_rollout", "alti:measure=l2")


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


def shard_of(texts: list[str]) -> Shard:
    return Shard(0, tuple(CorpusText(number, number + 1, text) for number, text in enumerate(texts)))


def rows_of(subject: tw.Subject, texts: list[str], job: Job | None = None) -> list[Row]:
    return list(process_shard(subject, job or make_job(subject, METHODS), shard_of(texts)).rows)


def test_row_when_texts_share_a_batch_then_equals_that_of_the_text_alone(subject: tw.Subject) -> None:
    texts = sentences(12)
    rows = rows_of(subject, texts)
    assert [row["text"] for row in rows] == list(range(12))
    for text, row in zip(texts, rows, strict=True):
        assert row["error"] is None
        assert (row["characters"], row["target"], row["position"], row["token"]) == (len(text), 0, 0, "[CLS]")
        alone = [tw.explain(subject, text, "attention_rollout"), tw.explain(subject, text, "alti", measure="l2")]
        for attribution, entry in zip(alone, row["methods"], strict=True):
            scores = attribution.scores[0]
            assert row["prediction"] == attribution.prediction
            assert row["tokens"] == len(attribution.sources)
            for source in entry["sources"]:
                assert source["score"] == pytest.approx(scores[source["position"]], abs=1e-5)
                assert source["token"] == attribution.sources.pieces[source["position"]]
            sizes = [abs(source["score"]) for source in entry["sources"]]
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] == pytest.approx(np.abs(scores).max(), abs=1e-5)
            assert len(sizes) == min(5, len(scores))
            shares = np.abs(scores) / np.abs(scores).sum()
            assert entry["entropy"] == pytest.approx(-(shares[shares > 0] * np.log(shares[shares > 0])).sum(), abs=1e-4)
            assert entry["special_share"] == pytest.approx(shares[[0, -1]].sum(), abs=1e-5)
            assert entry["own_share"] == pytest.approx(shares[0], abs=1e-5)
            assert entry["sum"] == pytest.approx(scores.sum(), abs=1e-5)
        (pair,) = row["agreement"]
        assert (pair["method"], pair["other"]) == METHODS


def test_row_when_methods_have_layer_maps_then_holds_the_figures_of_mixing(subject: tw.Subject) -> None:
    text = sentences(7)[6]
    (row,) = rows_of(subject, [text])
    mixed = tw.mixing(subject, text, ["attention_rollout"]).figures["attention_rollout"]
    layers = [layer for layer in row["layers"] if layer["method"] == "attention_rollout"]
    assert [layer["own"] for layer in layers] == pytest.approx(mixed.own.tolist(), abs=1e-6)
    assert [layer["not_own"] for layer in layers] == pytest.approx(mixed.not_own.tolist(), abs=1e-6)
    assert [[layer["special"], layer["punctuation"], layer["content"]] for layer in layers] == [
        pytest.approx(kinds, abs=1e-6) for kinds in mixed.by_kind.tolist()
    ]
    assert {check["method"] for check in row["checks"]} == {*METHODS, "certificate"}
    assert all(check["worst"] <= check["allowed"] for check in row["checks"])
    assert row["seconds"] > 0


@pytest.mark.parametrize("certificate", ["values", "full"])
def test_row_when_heads_are_certified_then_agrees_with_trust(
    subject: tw.Subject, certificate: Literal["values", "full"]
) -> None:
    text = sentences(7)[6]
    (row,) = rows_of(subject, [text], make_job(subject, [], certificate=certificate))
    for entry, head in zip(row["heads"], tw.trust(subject, text).heads, strict=True):
        assert (entry["layer"], entry["head"], entry["rank"]) == (head.layer, head.head, head.rank)
        assert entry["ambiguity"] == head.ambiguity
        by_values = "identifiable" if head.verdict == "identifiable" else "not identifiable by values"
        assert entry["verdict"] == (head.verdict if certificate == "full" else by_values)
        for name in ("null_share", "null_share_row_sum", "pearson"):
            assert entry[name] == pytest.approx(getattr(head, name), abs=1e-4)
        assert entry["spearman"] == (head.spearman if certificate == "full" else None)
    assert {entry["verdict"] for entry in row["heads"]} != {"identifiable"}


def test_rows_when_all_positions_are_targets_then_figures_of_the_text_appear_once(subject: tw.Subject) -> None:
    rows = rows_of(subject, ["the old dog runs"], make_job(subject, ["alti"], "all"))
    assert [(row["target"], row["position"]) for row in rows] == [(n, n) for n in range(6)]
    assert [row["heads"] is not None for row in rows] == [True] + [False] * 5
    assert [row["seconds"] is not None for row in rows] == [True] + [False] * 5
    scores = tw.explain(subject, "the old dog runs", "alti", "all").scores
    assert [row["methods"][0]["own_share"] for row in rows] == pytest.approx(np.diag(scores).tolist(), abs=1e-5)


def test_rows_when_texts_are_kept_or_hashed_then_have_words_or_only_a_digest(subject: tw.Subject) -> None:
    (kept,) = rows_of(subject, ["the old dog runs"])
    assert kept["content"] == "the old dog runs"
    assert [kept["content"][word["start"] :].split()[0] for word in kept["words"]] == ["the", "old", "dog", "runs"]
    attribution = tw.explain(subject, "the old dog runs", "attention_rollout")
    assert kept["methods"][0]["word_shares"] == pytest.approx(attribution.scores[0, 1:-1].tolist(), abs=1e-5)
    capture = subject.capture("the old dog runs")
    assert capture.logits is not None
    assert kept["probability"] == pytest.approx(capture.logits.softmax(-1).max().item(), abs=1e-5)
    (hashed,) = rows_of(subject, ["the old dog runs"], make_job(subject, METHODS, text="hash"))
    assert (hashed["content"], hashed["words"], hashed["digest"]) == (None, None, kept["digest"])
    assert [entry["word_shares"] for entry in hashed["methods"]] == [None] * len(METHODS)
    first, *others = rows_of(subject, ["the old dog runs"], make_job(subject, ["alti"], "all"))
    assert first["content"] is not None
    assert all(row["content"] is None and row["prediction"] == first["prediction"] for row in others)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_rows_when_the_model_is_of_another_kind_then_are_complete(family: str) -> None:
    subject = tiny_subject(family)
    subject.model.config.decoder_start_token_id = PAD
    for row in rows_of(subject, ["the old dog runs", "a new cat is good"], make_job(subject, ["attention_rollout"])):
        assert row["error"] is None
        assert row["prediction"] is not None
        assert row["methods"][0]["sum"] == pytest.approx(1.0, abs=1e-5)


def test_text_when_it_cannot_be_used_then_becomes_a_row_with_its_error(subject: tw.Subject) -> None:
    job = make_job(subject, ["attention_rollout"], max_tokens=20)
    texts = ["the old dog runs", " ", "the " * 30, "x" * (MAX_TEXT_CHARACTERS + 1), "\u200b", "a cat"]
    shard = Shard(0, (*shard_of(texts).texts, CorpusText(6, 9, error="line 9 of 'a' is not JSON")))
    result = process_shard(subject, job, shard)
    errors = {row["text"]: row["error"] for row in result.rows}
    assert {number for number, error in errors.items() if error is None} >= {0, 5}
    assert "is empty" in errors[1]
    assert "32 tokens" in errors[2] and "20" in errors[2]
    assert f"has {MAX_TEXT_CHARACTERS + 1} characters" in errors[3]
    assert errors[6] == "line 9 of 'a' is not JSON"
    assert all(len(error or "") <= MAX_ERROR_CHARACTERS + 1 for error in errors.values())
    assert (result.texts, result.failed) == (7, sum(error is not None for error in errors.values()))
    assert result.first_error == errors[1]


def test_text_when_the_model_fails_on_it_then_others_of_its_batch_have_results() -> None:
    subject = tiny_subject("bert")
    assert subject.tokenizer is not None
    with torch.no_grad():
        next(subject.model.get_input_embeddings().parameters())[subject.tokenizer.get_vocab()["cat"]] = torch.nan
    rows = rows_of(subject, ["the old dog runs", "the old cat runs", "the bad dog runs"])
    assert ["NaN" in (row["error"] or "") for row in rows] == [False, True, False]
    assert [row["error"] is None for row in rows] == [True, False, True]


def test_method_when_it_fails_then_the_others_are_kept(subject: tw.Subject) -> None:
    job = make_job(subject, ["alti:layer=9", "attention_rollout"])
    result = process_shard(subject, job, shard_of(sentences(3)))
    assert (result.failed, result.incomplete) == (0, 3)
    for row in result.rows:
        broken, good = row["methods"]
        assert "layer" in broken["error"] and "9" in broken["error"]
        assert good["error"] is None
        assert len(good["sources"]) > 0
        assert row["agreement"] == []


def test_maps_when_requested_then_are_the_scores_of_every_text(subject: tw.Subject) -> None:
    texts = sentences(3)
    result = process_shard(subject, make_job(subject, ["alti"], "all", maps=True, certificate=None), shard_of(texts))
    for number, text in enumerate(texts):
        attribution = tw.explain(subject, text, "alti", "all")
        np.testing.assert_allclose(result.maps[f"{number}/alti"], attribution.scores, atol=1e-5)
        assert result.tokens[str(number)] == attribution.sources.pieces
    assert all(row["heads"] is None for row in result.rows)


def test_shard_when_processed_twice_then_gives_the_same_to_the_last_digit(subject: tw.Subject) -> None:
    first, second = (rows_of(subject, sentences(9)) for _ in range(2))
    assert [row | {"seconds": 0} for row in first] == [row | {"seconds": 0} for row in second]


def test_ticks_when_counted_then_are_as_many_as_texts(subject: tw.Subject) -> None:
    ticks: list[int] = []
    process_shard(subject, make_job(subject, ["alti"]), shard_of(["a cat", " ", "the old dog"]), ticks.append)
    assert sum(ticks) == 3


def test_wiring_when_a_text_cannot_be_encoded_then_is_not_learnt_from_it(subject: tw.Subject) -> None:
    assert not learn_wiring(subject, CorpusText(0, 1, error="broken"))
    assert not learn_wiring(subject, CorpusText(0, 1, " "))
    assert learn_wiring(subject, CorpusText(0, 1, "the old dog"))
