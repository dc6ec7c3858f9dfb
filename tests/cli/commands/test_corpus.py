"""`thalweg corpus` as a person uses it."""

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


def test_command_when_run_twice_then_the_second_finds_everything_there(run: Run, tmp_path: Path) -> None:
    words = (*MODEL, "--file", "texts.txt", "--out", "rows", "--methods", "alti,attention_rollout:residual=measured")
    first, second = run(*words, "--shard", "4"), run(*words, "--shard", "4", "--json", "-")
    assert first.code == 0, first.err
    assert "6 of 6 texts, 6 rows in 2 shards: rows" in first.out
    assert "texts per second" in first.out
    found = json.loads(second.out)
    assert (found["texts"], found["found"], found["complete"], found["failed"]) == (6, 6, True, 0)
    assert len(read(tmp_path / "rows")) == 6


def test_command_when_texts_fail_then_says_how_many_and_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('{"review": "a cat"}\n{"review": 5}\n{}\n')
    words = (*MODEL, "--file", "texts.jsonl", "--out", "rows", "--text-column", "review", "--certificate", "")
    done = run(*words, "--methods", "alti:layer=9")
    assert done.code == 0
    assert "2 texts failed; the first said: line 2 of 'texts.jsonl' has 5 under 'review'" in " ".join(done.out.split())
    assert "1 texts lack a method" in done.out
    done = run(*words, "--methods", "alti", "--max-tokens", "2", "--out", "none")
    assert done.code == 2
    assert "none of 3 texts could be used; the first said: the text has" in done.said


def test_query_when_asked_on_the_command_line_then_shows_a_table_or_json(run: Run) -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")
    run(*MODEL, "--file", "texts.txt", "--out", "rows", "--methods", "alti", "--target", "all", "--certificate", "")
    sql = "SELECT token, count(*) AS many FROM sources WHERE place = 1 GROUP BY token ORDER BY many DESC, token"
    done = run("corpus", "query", "rows", sql)
    assert done.code == 0, done.err
    assert done.out.split()[:2] == ["token", "many"]
    found = json.loads(run("corpus", "query", "rows", sql, "--json", "-").out)
    assert found["columns"] == ["token", "many"]
    assert sum(many for _, many in found["rows"]) == sum(len(text.split()) + 2 for text in sentences(6))
    assert run("corpus", "query", "rows", "-- how many\nSELECT count(*) FROM rows").code == 0
    nested = run("corpus", "query", "rows", "SELECT * FROM rows LIMIT 1")
    assert "characters" in nested.out
    assert "…" not in nested.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --file with texts and --out with a folder"),
        (("--file", "texts.txt"), "give --file with texts and --out with a folder"),
        (("--file", "nowhere.txt", "--out", "rows"), "cannot read 'nowhere.txt'"),
        (("--limit", "3", "query", "rows", "SELECT 1"), " is for a run: leave it out before 'query'"),
        (("--file", "texts.txt", "--out", ".", "--json", "corpus.json"), "take the place of the corpus's own file"),
        (("--file", "texts.txt", "--out", "rows", "--methods", "alchemy"), "unknown method 'alchemy'"),
        (
            ("--file", "texts.txt", "--out", "rows", "--methods", "", "--certificate", ""),
            "no method and no certificate",
        ),
        (("--file", "texts.txt", "--out", "model"), "not of a corpus"),
        (("--file", "texts.txt", "--out", "texts.txt"), "is a file"),
        (("--file", "texts.txt", "--out", "rows", "--json", "no/where.json"), "there is no folder 'no'"),
        (("--file", "texts.txt", "query", "rows", "SELECT 1"), " is for a run: leave it out before 'query'"),
    ],
)
def test_command_when_it_cannot_be_done_then_says_why(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run(*MODEL, *words)
    assert done.code == 2
    assert said in done.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("query", "nowhere", "SELECT 1"), "'nowhere' holds no corpus"),
        (("query", ".", "SELECT 1", "--json", "shard-000000.parquet"), "take the place of the corpus's own file"),
        (("report", ".", "--out", "corpus.json"), "take the place of the corpus's own file"),
    ],
)
def test_question_when_it_cannot_be_asked_then_says_why(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run("corpus", *words)
    assert done.code == 2
    assert said in done.said
