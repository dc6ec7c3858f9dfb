"""The summary of a corpus: its numbers against plain sums over the rows, and on rows made by hand."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import thalweg as tw
from tests.conftest import missing
from tests.corpus.folders import hand_made, read_rows, sentences, write_folder
from thalweg.corpus.run import run_corpus
from thalweg.corpus.summarise import summarise
from thalweg.corpus.summary import MAX_LISTED, MIN_TIMES_KEPT, MIN_TOKENS, Band, Summary

METHODS = ["attention_rollout", "alti:layer=9", "alti", "decompx"]


@pytest.fixture(autouse=True)
def duckdb() -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")


@pytest.fixture(scope="module", params=["values", "full"])
def folder(bundled: tw.Subject, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Texts of up to 40 tokens on the bundled model; some are unreadable, one is too long, one method fails."""
    place = tmp_path_factory.mktemp("corpus")
    texts = [*sentences(16), *(" ".join(sentences(12)[9 - n :]) for n in range(4)), "long " * 80]
    lines = [*(json.dumps({"text": text}) for text in texts), "broken", '{"text": 5}', '{"text": 7}']
    (place / "texts.jsonl").write_text("\n".join(lines))
    run_corpus(
        bundled, place / "texts.jsonl", place / "out", METHODS, shard=7, max_tokens=60, certificate=request.param
    )
    return place / "out"


@pytest.fixture(scope="module")
def summary(folder: Path) -> Summary:
    return tw.Corpus.load(folder).summary()


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[dict[str, Any]]:
    return read_rows(folder)


def is_band(band: Band | None, values: Iterable[float | None]) -> bool:
    """Whether a band is that of these values, by sorting them."""
    known = sorted(value for value in values if value is not None)
    if not known or band is None:
        return not known and band is None
    low, high = (known[ceil(part * len(known) / 10) - 1] for part in (1, 9))
    near = pytest.approx((fmean(known), low, high, len(known)), abs=6e-4)
    return (band.mean, band.low, band.high, band.count) == near and band.mean == pytest.approx(fmean(known))


def test_counts_when_texts_fail_then_are_those_of_the_folder(summary: Summary, folder: Path) -> None:
    assert summary.counts == tw.Corpus.load(folder).counts
    assert (summary.counts.texts, summary.counts.failed, summary.counts.incomplete) == (24, 4, 20)
    assert summary.complete
    first, *rest = summary.errors
    assert (first.part, first.count, first.text) == ("alti:layer=9", 20, 0)
    numbers = next(group for group in rest if group.error.endswith("got 5"))
    assert (numbers.part, numbers.count, numbers.text) == ("text", 2, 22)  # 5 and 7 are the same mistake
    assert sum(group.count for group in rest) == 4


def test_layers_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    entries: Mapping[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for entry in (entry for row in rows for entry in row["layers"] or ()):
        entries[entry["method"], entry["layer"]].append(entry)
    assert [(layer.method, layer.layer) for layer in summary.layers] == [
        (name, layer) for name in ("attention_rollout", "alti") for layer in range(4)
    ]
    for layer in summary.layers:
        for name, band in layer.figures.items():
            assert is_band(band, (entry[name] for entry in entries[layer.method, layer.layer]))


def test_heads_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    known = [row for row in rows if row["heads"]]
    for head in summary.heads:
        same = [
            entry
            for row in known
            for entry in row["heads"]
            if (entry["layer"], entry["head"]) == (head.layer, head.head)
        ]
        counted = {verdict: count for verdict, count in head.verdicts.items() if count}
        assert counted == Counter(entry["verdict"] for entry in same)
        assert head.null_share == pytest.approx(fmean(entry["null_share"] for entry in same))
        assert head.null_share_row_sum == pytest.approx(fmean(entry["null_share_row_sum"] for entry in same))
    assert len(summary.heads) == len(known[0]["heads"])
    assert len([count for count in summary.verdicts.values() if count]) > 1


def test_lengths_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    known = [row for row in rows if row["heads"]]
    for length in summary.lengths:
        same = [row["heads"] for row in known if length.start <= row["tokens"] < length.stop]
        assert length.texts == len(same)
        for name in ("null_share", "null_share_row_sum"):
            assert is_band(getattr(length, name), (fmean(head[name] for head in heads) for heads in same))
        verdicts = {head["verdict"] for heads in same for head in heads}
        assert set(length.verdicts) == {*summary.possible_verdicts} >= verdicts
        for verdict in summary.possible_verdicts:
            shares = (fmean(head["verdict"] == verdict for head in heads) for heads in same)
            assert length.verdicts[verdict] == pytest.approx(fmean(shares))
    assert sum(length.texts for length in summary.lengths) == len(known)
    assert is_band(summary.tokens, (row["tokens"] for row in rows))


def test_tokens_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    assert [method.method for method in summary.methods] == ["attention_rollout", "alti", "decompx"]
    for method in summary.methods:
        same = [
            entry
            for row in rows
            for entry in row["methods"] or ()
            if entry["method"] == method.method and entry["error"] is None
        ]
        for name in ("special_share", "own_share", "entropy"):
            assert is_band(getattr(method, name), (entry[name] for entry in same))
        largest = Counter(entry["sources"][0]["token"] for entry in same)
        scores: Mapping[str, list[float]] = defaultdict(list)
        for source in (source for entry in same for source in entry["sources"]):
            if source["score"]:  # sources without a score only fill up short lists
                scores[source["token"]].append(source["score"])
        times_largest = [token.times_largest for token in method.most_often_largest]
        assert times_largest == sorted(largest.values(), reverse=True)[:MAX_LISTED]
        sizes = {token: fmean(map(abs, kept)) for token, kept in scores.items() if len(kept) >= MIN_TIMES_KEPT}
        assert [token.token for token in method.largest_mean] == sorted(sizes, key=lambda token: -sizes[token])[
            :MAX_LISTED
        ]
        assert method.largest_mean
        for token in (*method.most_often_largest, *method.largest_mean):
            assert (token.times_largest, token.times_kept) == (largest[token.token], len(scores[token.token]))
            assert token.mean_score == pytest.approx(fmean(scores[token.token]))
            assert token.mean_size == pytest.approx(fmean(map(abs, scores[token.token])))


def test_agreement_when_summed_up_then_is_that_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    pairs = [(pair.method, pair.other) for pair in summary.agreement]
    assert pairs == [("attention_rollout", "alti"), ("attention_rollout", "decompx"), ("alti", "decompx")]
    for pair in summary.agreement:
        same = [
            entry
            for row in rows
            for entry in row["agreement"] or ()
            if (entry["method"], entry["other"]) == (pair.method, pair.other)
        ]
        assert is_band(pair.correlation, (entry["correlation"] for entry in same))
    means = {
        row["text"]: fmean(entry["correlation"] for entry in row["agreement"])
        for row in rows
        if row["agreement"] and row["tokens"] >= MIN_TOKENS
    }
    lowest = sorted(means, key=lambda text: means[text])[:MAX_LISTED]
    assert [target.text for target in summary.lowest_agreement] == lowest
    for target in summary.lowest_agreement:
        (row,) = (row for row in rows if row["text"] == target.text)
        least = min(row["agreement"], key=lambda entry: entry["correlation"])
        assert (target.line, target.tokens, target.target) == (row["line"], row["tokens"], 0)
        assert target.correlation == pytest.approx(means[target.text])
        assert (target.method, target.other, target.lowest) == (least["method"], least["other"], least["correlation"])


def test_checks_when_summed_up_then_are_the_worst_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    entries: Mapping[tuple[str, str], list[tuple[float, float, int, int]]] = defaultdict(list)
    for row in rows:
        for entry in row["checks"] or ():
            worst = (entry["worst"], entry["allowed"], row["text"], row["line"])
            entries[entry["method"], entry["identity"]].append(worst)
    assert {(check.method, check.identity) for check in summary.checks} == set(entries)
    for check in summary.checks:
        same = entries[check.method, check.identity]
        assert (check.worst, check.allowed, check.text, check.line) == max(same, key=lambda entry: entry[0] / entry[1])
        assert (check.texts, check.exceeding) == (len(same), sum(worst > allowed for worst, allowed, *_ in same))


def test_summary_when_computed_twice_then_is_the_same_to_the_last_digit(summary: Summary, folder: Path) -> None:
    assert summarise(folder) == summary


def head(verdict: str = "identifiable", share: float | None = 0.0) -> dict[str, Any]:
    return {"layer": 0, "head": 0, "verdict": verdict, "null_share": share, "null_share_row_sum": share}


def test_lengths_when_texts_grow_then_bins_are_quarters_of_powers_of_two(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*=b"  # DuckDB could take it for a pattern or a partition column
    write_folder(folder, [hand_made(number, tokens=number + 1, heads=[head()]) for number in range(40)])
    bins = [(length.start, length.stop) for length in summarise(folder).lengths]
    assert bins == [
        *((n, n + 1) for n in range(1, 8)),
        *((n, n + 2) for n in range(8, 16, 2)),
        *((n, n + 4) for n in range(16, 32, 4)),
        (32, 40),
        (40, 48),
    ]


def test_checks_when_exceeded_or_not_finite_then_are_counted(tmp_path: Path) -> None:
    errors = [1e-7, None, 3e-5, 0.0]
    rows = [
        hand_made(number, checks=[{"method": "alti", "identity": "parity", "worst": worst, "allowed": 1e-5}])
        for number, worst in enumerate(errors)
    ]
    write_folder(tmp_path, rows)
    (check,) = summarise(tmp_path).checks
    assert (check.exceeding, check.texts, check.worst, check.text) == (2, 4, None, 1)


def test_targets_when_there_are_several_then_texts_are_counted_once(tmp_path: Path) -> None:
    scored = {"method": "alti", "error": None, "sources": [{"position": 0, "token": "a", "score": 1.0}], "entropy": 0.0}
    zero = scored | {"sources": [{"position": 0, "token": "b", "score": 0.0}], "entropy": None}
    rows = [
        hand_made(0, tokens=12, heads=[head()], methods=[scored]),
        hand_made(0, tokens=12, target=1, methods=[scored]),
        hand_made(0, tokens=12, target=2, methods=[zero]),
    ]
    write_folder(tmp_path, rows, texts=5)
    summary = summarise(tmp_path)
    assert (summary.counts.texts, summary.counts.rows, summary.complete) == (1, 3, False)
    assert summary.heads[0].texts == summary.lengths[0].texts == 1
    (method,) = summary.methods
    assert method.targets == 3
    assert [(token.token, token.times_largest) for token in method.most_often_largest] == [("a", 2)]


def test_agreement_when_a_method_scores_all_sources_alike_then_is_counted_as_undefined(tmp_path: Path) -> None:
    pair = {"method": "alti", "other": "attention_flow"}
    rows = [
        hand_made(0, tokens=20, agreement=[pair | {"correlation": None}]),
        hand_made(1, tokens=20, agreement=[pair | {"correlation": -0.5}]),
        hand_made(2, tokens=3, agreement=[pair | {"correlation": -1.0}]),
    ]
    write_folder(tmp_path, rows, methods=["alti", "attention_flow"])
    summary = summarise(tmp_path)
    (agreement,) = summary.agreement
    assert agreement.correlation is not None
    assert (agreement.correlation.mean, agreement.correlation.count, agreement.undefined) == (-0.75, 2, 1)
    assert [(target.text, target.correlation) for target in summary.lowest_agreement] == [(1, -0.5)]


def test_errors_when_they_differ_in_numbers_only_then_form_one_group(tmp_path: Path) -> None:
    write_folder(tmp_path, [hand_made(number, error=f"text {number} is bad") for number in range(3)])
    (group,) = summarise(tmp_path).errors
    assert (group.part, group.count, group.error, group.text) == ("text", 3, "text 0 is bad", 0)
