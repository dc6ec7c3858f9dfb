"""The summary of a corpus: its numbers against plain sums over the rows, and what its page says and does not run."""

import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import thalweg as tw
from tests.command import Run
from tests.conftest import missing
from tests.corpus.folders import by_hand, made, read, sentences
from thalweg.corpus.run import run_corpus
from thalweg.corpus.summary import LISTED, OFTEN, SHORT, Band, Summary, summarise

METHODS = ["attention_rollout", "alti:layer=9", "alti", "decompx"]
ATTACK = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def duckdb() -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")


@pytest.fixture(scope="module", params=["values", "full"])
def folder(shipped: tw.Subject, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Texts of up to 40 tokens on the model that ships; some cannot be read, one is too long, one method fails."""
    place = tmp_path_factory.mktemp("corpus")
    texts = [*sentences(16), *(" ".join(sentences(12)[9 - n :]) for n in range(4)), "long " * 80]
    lines = [*(json.dumps({"text": one}) for one in texts), "broken", '{"text": 5}', '{"text": 7}']
    (place / "texts.jsonl").write_text("\n".join(lines))
    run_corpus(
        shipped, place / "texts.jsonl", place / "out", METHODS, shard=7, max_tokens=60, certificate=request.param
    )
    return place / "out"


@pytest.fixture(scope="module")
def summary(folder: Path) -> Summary:
    return tw.Corpus.load(folder).summary()


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[dict[str, Any]]:
    return read(folder)


def is_band(found: Band | None, values: Iterable[float | None]) -> bool:
    """Whether a band is that of these values, sorted in plain sight."""
    known = sorted(value for value in values if value is not None)
    if not known or found is None:
        return not known and found is None
    low, high = (known[ceil(part * len(known) / 10) - 1] for part in (1, 9))
    near = pytest.approx((fmean(known), low, high, len(known)), abs=6e-4)
    return (found.mean, found.low, found.high, found.count) == near and found.mean == pytest.approx(fmean(known))


# --- numbers, against the rows --------------------------------------------------------------------------


def test_counts_when_texts_fail_then_are_those_of_the_folder(summary: Summary, folder: Path) -> None:
    assert summary.counts == tw.Corpus.load(folder).counts
    assert (summary.counts.texts, summary.counts.failed, summary.counts.incomplete) == (24, 4, 20)
    assert summary.complete
    first, *rest = summary.failures
    assert (first.part, first.count, first.text) == ("alti:layer=9", 20, 0)
    numbers = next(one for one in rest if "'text' must be" in one.error)
    assert (numbers.part, numbers.count, numbers.text) == ("text", 2, 22)  # 5 and 7 are the same mistake
    assert sum(one.count for one in rest) == 4


def test_layers_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    found: Mapping[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for one in (entry for row in rows for entry in row["layers"] or ()):
        found[one["method"], one["layer"]].append(one)
    assert [(one.method, one.layer) for one in summary.layers] == [
        (name, layer) for name in ("attention_rollout", "alti") for layer in range(4)
    ]
    for one in summary.layers:
        for name, band in one.figures.items():
            assert is_band(band, (entry[name] for entry in found[one.method, one.layer]))


def test_heads_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    known = [row for row in rows if row["heads"]]
    for one in summary.heads:
        same = [
            head for row in known for head in row["heads"] if (head["layer"], head["head"]) == (one.layer, one.head)
        ]
        assert {name: count for name, count in one.verdicts.items() if count} == Counter(h["verdict"] for h in same)
        assert one.null_share == pytest.approx(fmean(head["null_share"] for head in same))
        assert one.null_share_row_sum == pytest.approx(fmean(head["null_share_row_sum"] for head in same))
    assert len(summary.heads) == len(known[0]["heads"])
    assert len([count for count in summary.verdicts.values() if count]) > 1
    for one in summary.lengths:
        same = [row["heads"] for row in known if one.start <= row["tokens"] < one.stop]
        assert one.texts == len(same)
        for name in ("null_share", "null_share_row_sum"):
            assert is_band(getattr(one, name), (fmean(head[name] for head in heads) for heads in same))
        assert set(one.verdicts) == {*summary.possible} >= {head["verdict"] for heads in same for head in heads}
        for verdict in summary.possible:
            shares = (fmean(head["verdict"] == verdict for head in heads) for heads in same)
            assert one.verdicts[verdict] == pytest.approx(fmean(shares))
    assert sum(one.texts for one in summary.lengths) == len(known)
    assert is_band(summary.tokens, (row["tokens"] for row in rows))


def test_tokens_when_summed_up_then_are_those_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    assert [one.method for one in summary.received] == ["attention_rollout", "alti", "decompx"]
    for one in summary.received:
        same = [m for row in rows for m in row["methods"] or () if m["method"] == one.method and m["error"] is None]
        for name in ("special_share", "own_share", "entropy"):
            assert is_band(getattr(one, name), (entry[name] for entry in same))
        first = Counter(entry["sources"][0]["token"] for entry in same)
        scores: Mapping[str, list[float]] = defaultdict(list)
        for source in (source for entry in same for source in entry["sources"]):
            if source["score"]:  # what gives nothing was kept for want of others
                scores[source["token"]].append(source["score"])
        assert [token.first for token in one.first] == sorted(first.values(), reverse=True)[:LISTED]
        often = {token: fmean(map(abs, all_)) for token, all_ in scores.items() if len(all_) >= OFTEN}
        assert [token.token for token in one.largest] == sorted(often, key=lambda token: -often[token])[:LISTED]
        assert one.largest
        for token in (*one.first, *one.largest):
            assert (token.first, token.kept) == (first[token.token], len(scores[token.token]))
            assert token.score == pytest.approx(fmean(scores[token.token]))
            assert token.size == pytest.approx(fmean(map(abs, scores[token.token])))


def test_agreement_when_summed_up_then_is_that_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    pairs = [(one.method, one.other) for one in summary.agreement]
    assert pairs == [("attention_rollout", "alti"), ("attention_rollout", "decompx"), ("alti", "decompx")]
    for one in summary.agreement:
        same = [
            a for row in rows for a in row["agreement"] or () if (a["method"], a["other"]) == (one.method, one.other)
        ]
        assert is_band(one.correlation, (entry["correlation"] for entry in same))
    means = {
        row["text"]: fmean(one["correlation"] for one in row["agreement"])
        for row in rows
        if row["agreement"] and row["tokens"] >= SHORT
    }
    assert [one.text for one in summary.apart] == sorted(means, key=lambda text: means[text])[:LISTED]
    for one in summary.apart:
        (row,) = (row for row in rows if row["text"] == one.text)
        least = min(row["agreement"], key=lambda entry: entry["correlation"])
        assert (one.line, one.tokens, one.target) == (row["line"], row["tokens"], 0)
        assert one.correlation == pytest.approx(means[one.text])
        assert (one.method, one.other, one.lowest) == (least["method"], least["other"], least["correlation"])


def test_checks_when_summed_up_then_are_the_worst_of_the_rows(summary: Summary, rows: list[dict[str, Any]]) -> None:
    found: Mapping[tuple[str, str], list[tuple[float, float, int, int]]] = defaultdict(list)
    for row in rows:
        for one in row["checks"] or ():
            found[one["method"], one["identity"]].append((one["worst"], one["allowed"], row["text"], row["line"]))
    assert {(one.method, one.identity) for one in summary.checks} == set(found)
    for one in summary.checks:
        same = found[one.method, one.identity]
        assert (one.worst, one.allowed, one.text, one.line) == max(same, key=lambda entry: entry[0] / entry[1])
        assert (one.texts, one.exceeding) == (len(same), sum(worst > allowed for worst, allowed, *_ in same))


def test_summary_when_made_twice_then_is_the_same_to_the_last_digit(summary: Summary, folder: Path) -> None:
    assert summarise(folder) == summary
    assert json.loads(json.dumps(summary.to_dict(), allow_nan=False))["counts"]["texts"] == 24


# --- rows made by hand -----------------------------------------------------------------------------------


def head(verdict: str = "identifiable", share: float | None = 0.0) -> dict[str, Any]:
    return {"layer": 0, "head": 0, "verdict": verdict, "null_share": share, "null_share_row_sum": share}


def test_lengths_when_texts_grow_then_stand_in_quarters_of_powers_of_two(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*=b"  # which DuckDB would take for a pattern, and for a column
    made(folder, [by_hand(number, tokens=number + 1, heads=[head()]) for number in range(40)])
    found = [(one.start, one.stop) for one in summarise(folder).lengths]
    assert found == [
        *((n, n + 1) for n in range(1, 8)),
        *((n, n + 2) for n in range(8, 16, 2)),
        *((n, n + 4) for n in range(16, 32, 4)),
        (32, 40),
        (40, 48),
    ]


def test_checks_when_exceeded_or_not_finite_then_are_counted_and_said(tmp_path: Path) -> None:
    errors = [1e-7, None, 3e-5, 0.0]
    made(
        tmp_path,
        [
            by_hand(n, checks=[{"method": "alti", "identity": "parity", "worst": worst, "allowed": 1e-5}])
            for n, worst in enumerate(errors)
        ],
    )
    found = summarise(tmp_path)
    (one,) = found.checks
    assert (one.exceeding, one.texts, one.worst, one.text) == (2, 4, None, 1)
    assert "1 of 1 checks are exceeded" in found.to_html()


def test_targets_when_there_are_several_then_texts_are_counted_once(tmp_path: Path) -> None:
    scored = {"method": "alti", "error": None, "sources": [{"position": 0, "token": "a", "score": 1.0}], "entropy": 0.0}
    nothing = scored | {"sources": [{"position": 0, "token": "b", "score": 0.0}], "entropy": None}
    made(
        tmp_path,
        [
            by_hand(0, tokens=12, heads=[head()], methods=[scored]),
            by_hand(0, tokens=12, target=1, methods=[scored]),
            by_hand(0, tokens=12, target=2, methods=[nothing]),
        ],
        texts=5,
    )
    found = summarise(tmp_path)
    assert (found.counts.texts, found.counts.rows, found.complete) == (1, 3, False)
    assert found.heads[0].texts == found.lengths[0].texts == 1
    (one,) = found.received
    assert (one.targets, [(token.token, token.first) for token in one.first]) == (3, [("a", 2)])
    page = found.to_html()
    assert "1 of 5 texts." in page and "The run is not finished: 4 texts are missing." in page
    assert "% of targets" in page


def test_agreement_when_a_method_scores_all_alike_then_is_left_out_and_said(tmp_path: Path) -> None:
    pair = {"method": "alti", "other": "attention_flow"}
    made(
        tmp_path,
        [
            by_hand(0, tokens=20, agreement=[pair | {"correlation": None}]),
            by_hand(1, tokens=20, agreement=[pair | {"correlation": -0.5}]),
            by_hand(2, tokens=3, agreement=[pair | {"correlation": -1.0}]),
        ],
        methods=["alti", "attention_flow"],
    )
    found = summarise(tmp_path)
    (one,) = found.agreement
    assert one.correlation is not None
    assert (one.correlation.mean, one.correlation.count, one.undefined) == (-0.75, 2, 1)
    assert [(one.text, one.correlation) for one in found.apart] == [(1, -0.5)]
    assert "scores all sources alike: alti and attention_flow 1." in found.to_html()


# --- the page ----------------------------------------------------------------------------------------------


def test_page_when_written_then_names_everything_that_was_found(summary: Summary, tmp_path: Path) -> None:
    page = summary.to_html()
    assert re.findall(r"<h2[^>]*>([^<]*)", page) == [
        "The run",
        "Mixing by layer",
        "Null share against length",
        "Certificates of heads",
        "Tokens that receive most",
        "Agreement between methods",
        "Checks",
    ]
    for said in (summary.configuration_hash, summary.configuration["weights"], "thalweg-default", *METHODS):
        assert html.escape(said) in page
    assert f"{100 * summary.verdicts['identifiable'] / sum(summary.verdicts.values()):.1f}%" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert " style=" not in page and "innerHTML" not in page  # which the page's own policy would refuse
    summary.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', summary._repr_html_()).group(1)) == page  # pyright: ignore


def test_page_when_data_looks_like_html_then_is_text(tmp_path: Path) -> None:
    sources = [{"position": 0, "token": f"{ATTACK}\x1b‮", "score": 1.0}]
    pair = {"method": ATTACK, "other": "alti", "correlation": 0.5}
    layer = {
        "method": ATTACK,
        "layer": 0,
        "own": 0.5,
        "not_own": 0.5,
        "special": 0.1,
        "punctuation": 0.1,
        "content": 0.1,
    }
    made(
        tmp_path / ATTACK.replace("/", ""),
        [
            by_hand(
                0,
                tokens=20,
                agreement=[pair],
                layers=[layer],
                methods=[{"method": ATTACK, "error": None, "sources": sources}],
            ),
            by_hand(1, checks=[{"method": ATTACK, "identity": ATTACK, "worst": 0.0, "allowed": 1.0}]),
            by_hand(2, error=ATTACK),
        ],
        methods=[ATTACK, "alti"],
        target=ATTACK,
        model=ATTACK,
    )
    page = summarise(tmp_path / ATTACK.replace("/", "")).to_html()
    assert page.count(html.escape(ATTACK)) > 12
    assert "<img" not in page and page.count("</script") == 1
    assert "\x1b" not in page and "‮" not in page


def test_page_when_every_text_failed_then_says_so(tmp_path: Path) -> None:
    made(tmp_path, [by_hand(n, error=f"text {n} is bad") for n in range(3)], methods=["alti", "attention_flow"])
    found = summarise(tmp_path)
    assert (found.counts.failed, [one.count for one in found.failures]) == (3, [3])
    page = found.to_html()
    for said in (
        "3 texts, of which 3 failed.",
        "No method of this run has a map for every layer of any text.",
        "No text of this run has a certificate",
        "No text has scores of any method.",
        "No text has scores of two methods.",
        "Nothing was checked",
    ):
        assert said in page
    assert "<figure" not in page


def test_page_when_there_is_one_method_and_no_certificate_then_says_so(tmp_path: Path) -> None:
    made(tmp_path, [by_hand(0, tokens=3, methods=[{"method": "alti", "error": None, "sources": []}])], certificate=None)
    page = summarise(tmp_path).to_html()
    assert page.count("Certificates were not asked for in this run.") == 2
    assert "There are not two methods in this run to compare." in page
    assert "No source has a score." in page


# --- the command --------------------------------------------------------------------------------------------


def test_command_when_asked_for_a_report_then_shows_it_and_writes_a_page(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    done = run("corpus", "report", str(folder), "--out", str(tmp_path / "page.html"))
    assert done.code == 0, done.err
    assert "24 texts, of which 4 failed." in done.out
    assert "ttention can be read in" in done.out
    assert "every check holds on every text" in done.out
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == summarise(folder).to_html()
    found = json.loads(run("corpus", "report", str(folder), "--json", "-").out)
    assert (found["counts"]["failed"], found["complete"], found["schema"]) == (4, True, 1)


def test_command_when_a_report_cannot_be_written_then_says_why(run: Run, folder: Path, tmp_path: Path) -> None:
    before = (folder / "corpus.json").read_bytes()
    for words, said in (
        ((str(folder), "--out", str(folder / "corpus.json")), "the corpus's own file"),
        ((str(folder), "--json", str(folder / "shard-000000.parquet")), "the corpus's own file"),
        ((str(folder), "--out", str(tmp_path / "no" / "page.html")), "there is no folder"),
        ((str(tmp_path), "--out", str(tmp_path / "page.html")), "holds no corpus"),
    ):
        done = run("corpus", "report", *words)
        assert (done.code, said in done.said) == (2, True), done.err
    assert (folder / "corpus.json").read_bytes() == before
