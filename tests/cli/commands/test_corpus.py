"""`thalweg corpus` on the command line."""

import csv
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command import Run
from tests.conftest import missing
from tests.corpus.folders import read_rows, sentences
from tests.tiny import save_folder

MODEL = ("corpus", "--model", "model")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with six texts and a tiny model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(sentences(6)))
    save_folder(tmp_path / "model")


def test_command_when_run_twice_then_the_second_run_has_nothing_to_do(run: Run, tmp_path: Path) -> None:
    words = (*MODEL, "--file", "texts.txt", "--out", "rows", "--methods", "alti,attention_rollout:residual=measured")
    first, second = run(*words, "--shard", "4"), run(*words, "--shard", "4", "--json", "-")
    assert first.code == 0, first.err
    assert "6 of 6 texts, 6 rows in 2 shards: rows" in first.out
    assert "texts per second" in first.out
    corpus = json.loads(second.out)
    assert (corpus["texts"], corpus["resumed"], corpus["complete"], corpus["failed"]) == (6, 6, True, 0)
    assert len(read_rows(tmp_path / "rows")) == 6


def test_command_when_texts_fail_then_shows_how_many_and_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('{"review": "a cat"}\n{"review": 5}\n{}\n')
    words = (*MODEL, "--file", "texts.jsonl", "--out", "rows", "--text-column", "review", "--certificate", "")
    done = run(*words, "--methods", "alti:layer=9")
    assert done.code == 0
    assert "2 texts failed; first error: line 2 of" in " ".join(done.out.split())
    assert "texts.jsonl" in done.out and "'review'" in done.out
    assert "1 texts lack a method" in done.out
    done = run(*words, "--methods", "alti", "--max-tokens", "2", "--out", "none")
    assert done.code == 2
    assert "all 3 texts failed; first error: text has" in done.message


def test_query_when_run_then_shows_a_table_or_json(run: Run) -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")
    run(*MODEL, "--file", "texts.txt", "--out", "rows", "--methods", "alti", "--target", "all", "--certificate", "")
    sql = "SELECT token, count(*) AS many FROM sources WHERE place = 1 GROUP BY token ORDER BY many DESC, token"
    done = run("corpus", "query", "rows", sql)
    assert done.code == 0, done.err
    assert done.out.split()[:2] == ["token", "many"]
    result = json.loads(run("corpus", "query", "rows", sql, "--json", "-").out)
    assert result["columns"] == ["token", "many"]
    assert sum(many for _, many in result["rows"]) == sum(len(text.split()) + 2 for text in sentences(6))
    assert run("corpus", "query", "rows", "-- how many\nSELECT count(*) FROM rows").code == 0
    nested = run("corpus", "query", "rows", "SELECT * FROM rows LIMIT 1")
    assert "characters" in nested.out
    assert "…" not in nested.out


def test_export_when_texts_have_ids_then_writes_them_as_csv(run: Run, tmp_path: Path) -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")
    (tmp_path / "texts.csv").write_text('key,text\nx7,"a cat, a dog"\n,the old dog\n')
    run(*MODEL, "--file", "texts.csv", "--id-column", "key", "--out", "rows", "--methods", "alti")
    done = run("corpus", "export", "rows", "--csv", "rows.csv")
    assert done.code == 0, done.err
    assert (done.out, done.err) == ("2 rows of rows\n", "wrote rows.csv\n")
    assert "--csv must be a file, got -" in run("corpus", "export", "rows", "--csv", "-").err
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["content"]) for row in rows] == [("x7", "a cat, a dog"), ("", "the old dog")]
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)
    run(*MODEL, "--file", "texts.csv", "--text", "hash", "--out", "hashed", "--methods", "alti")
    assert [row["content"] for row in read_rows(tmp_path / "hashed")] == [None, None]


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--file", "texts.txt", "--out", "rows", "--text", "drop"), ("'keep'", "'hash'", "'drop'")),
        (("--file", "texts.txt", "--out", "rows", "--id-column", "key"), ("not a table", "'key'")),
        ((), ("--file", "--out")),
        (("--file", "texts.txt"), ("--file", "--out")),
        (("--file", "nowhere.txt", "--out", "rows"), ("cannot read", "nowhere.txt")),
        (("--file", "texts.txt", "--out", ".", "--json", "run.json"), ("run.json", "inside a run folder")),
        (("--file", "texts.txt", "--out", "rows", "--methods", "alchemy"), ("unknown method 'alchemy'",)),
        (("--file", "texts.txt", "--out", "rows", "--methods", "", "--certificate", ""), ("method or a certificate",)),
        (("--file", "texts.txt", "--out", "rows", "--certificate", "some"), ("'values'", "'full'", "'some'")),
        (("--file", "texts.txt", "--out", "model"), ("model", "not part of a corpus run")),
        (("--file", "texts.txt", "--out", "texts.txt"), ("texts.txt is a file",)),
        (("--file", "texts.txt", "--out", "rows", "--json", "no/where.json"), ("no/where.json", "folder")),
    ],
)
def test_command_when_it_cannot_run_then_says_why(run: Run, words: tuple[str, ...], facts: tuple[str, ...]) -> None:
    done = run(*MODEL, *words)
    assert done.code == 2
    for fact in facts:
        assert fact in done.message


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--limit", "3", "query", "rows", "SELECT 1"), ("--limit", "'query'")),
        (("--file", "texts.txt", "query", "rows", "SELECT 1"), ("--file", "'query'")),
        (("query", "nowhere", "SELECT 1"), ("nowhere", "not the folder of a corpus run")),
        (("query", ".", "SELECT 1", "--json", "shard-000000.parquet"), ("shard-000000.parquet", "inside a run folder")),
        (("report", ".", "--json", "run.json"), ("run.json", "inside a run folder")),
        (("report", ".", "--html", "no/page.html"), ("no/page.html", "inside a run folder")),
        (("report", "nowhere", "--html", "no/page.html"), ("no/page.html", "folder")),
        (("report", ".", "--html", "page.html"), ("inside a run folder",)),
        (("report", "nowhere", "--html", "page.html"), ("not the folder of a corpus run",)),
    ],
)
def test_folder_when_it_cannot_be_read_or_the_output_written_then_says_why(
    run: Run, words: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    done = run("corpus", *words)
    assert done.code == 2
    for fact in facts:
        assert fact in done.message


def test_report_when_run_then_shows_figures_and_writes_a_page(run: Run, tmp_path: Path) -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")
    from thalweg.corpus.summarise import summarise

    (tmp_path / "texts.jsonl").write_text('{"text": "the old dog runs"}\n{"text": "a cat"}\n{"text": 5}\n')
    run(*MODEL, "--file", "texts.jsonl", "--out", "rows")
    done = run("corpus", "report", "rows", "--html", "page.html")
    assert done.code == 0, done.err
    assert "3 texts, 1 failed: " in done.out
    assert "of heads are identifiable" in done.out
    assert "every check is within its tolerance" in done.out
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == summarise(Path("rows")).to_html()
    summary = json.loads(run("corpus", "report", "rows", "--json", "-").out)
    assert (summary["counts"]["failed"], summary["complete"], summary["identity"]["schema"]) == (1, True, 4)
    header = (tmp_path / "rows" / "run.json").read_bytes()
    done = run("corpus", "report", "rows", "--json", "rows/run.json")
    assert (done.code, "run.json" in done.message) == (2, True)
    assert (tmp_path / "rows" / "run.json").read_bytes() == header
