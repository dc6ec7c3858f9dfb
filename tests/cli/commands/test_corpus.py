"""`thalweg corpus`: runs, queries and reports over a file of texts."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command import Run
from tests.conftest import missing
from tests.corpus.folders import read, sentences
from tests.tiny import save_folder

MODEL = ("corpus", "--model", "model")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with six texts and a tiny model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(sentences(6)))
    save_folder(tmp_path / "model")


def test_command_when_run_twice_then_the_second_run_reads_the_rows(run: Run, tmp_path: Path) -> None:
    words = (*MODEL, "--file", "texts.txt", "--out", "rows", "--methods", "alti,attention_rollout:residual=measured")
    first, second = run(*words, "--shard", "4"), run(*words, "--shard", "4", "--json", "-")
    assert first.code == 0, first.err
    assert "6 of 6 texts, 6 rows in 2 shards: rows" in first.out
    assert "texts per second" in first.out
    result = json.loads(second.out)
    assert (result["texts"], result["complete"], result["failed"]) == (6, True, 0)
    assert len(read(tmp_path / "rows")) == 6


def test_command_when_texts_fail_then_shows_how_many_and_the_first_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('{"review": "a cat"}\n{"review": 5}\n{}\n')
    words = (*MODEL, "--file", "texts.jsonl", "--out", "rows", "--text-column", "review", "--certificate", "")
    done = run(*words, "--methods", "alti:layer=9")
    assert done.code == 0
    message = " ".join(done.out.split())
    assert "2 texts failed" in message
    assert "line 2 of texts.jsonl: 'review' must be a text, got 5" in message
    assert "1 text" in message
    done = run(*words, "--methods", "alti", "--max-tokens", "2", "--out", "none")
    assert done.code == 2
    assert "all 3 texts failed" in done.message


def test_query_when_run_then_shows_a_table_or_json(run: Run) -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")
    run(*MODEL, "--file", "texts.txt", "--out", "rows", "--methods", "alti", "--target", "all", "--certificate", "")
    sql = "SELECT token, count(*) AS many FROM sources WHERE place = 1 GROUP BY token ORDER BY many DESC, token"
    done = run("corpus", "query", "rows", sql)
    assert done.code == 0, done.err
    assert done.out.split()[:2] == ["token", "many"]
    answer = json.loads(run("corpus", "query", "rows", sql, "--json", "-").out)
    assert answer["columns"] == ["token", "many"]
    assert sum(many for _, many in answer["rows"]) == sum(len(text.split()) + 2 for text in sentences(6))
    assert run("corpus", "query", "rows", "-- how many\nSELECT count(*) FROM rows").code == 0
    nested = run("corpus", "query", "rows", "SELECT * FROM rows LIMIT 1")
    assert "characters" in nested.out
    assert "…" not in nested.out


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ((), "--file with texts and --out with a folder"),
        (("--file", "texts.txt"), "--file with texts and --out with a folder"),
        (("--file", "nowhere.txt", "--out", "rows"), "cannot read nowhere.txt"),
        (("--limit", "3", "query", "rows", "SELECT 1"), " belongs to a run: omit it before 'query'"),
        (("--file", "texts.txt", "--out", ".", "--json", "corpus.json"), "corpus's own files"),
        (("--file", "texts.txt", "--out", "rows", "--methods", "alchemy"), "unknown method 'alchemy'"),
        (
            ("--file", "texts.txt", "--out", "rows", "--methods", "", "--certificate", ""),
            "certificate",
        ),
        (("--file", "texts.txt", "--out", "model"), "model"),
        (("--file", "texts.txt", "--out", "texts.txt"), "texts.txt"),
        (("--file", "texts.txt", "--out", "rows", "--json", "no/where.json"), "'no'"),
        (("--file", "texts.txt", "query", "rows", "SELECT 1"), " belongs to a run: omit it before 'query'"),
    ],
)
def test_run_when_impossible_then_states_the_fact(run: Run, words: tuple[str, ...], fact: str) -> None:
    done = run(*MODEL, *words)
    assert done.code == 2
    assert fact in done.message


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("query", "nowhere", "SELECT 1"), "nowhere"),
        (("query", ".", "SELECT 1", "--json", "shard-000000.parquet"), "corpus's own files"),
        (("report", ".", "--out", "corpus.json"), "corpus's own files"),
    ],
)
def test_subcommand_when_impossible_then_states_the_fact(run: Run, words: tuple[str, ...], fact: str) -> None:
    done = run("corpus", *words)
    assert done.code == 2
    assert fact in done.message
