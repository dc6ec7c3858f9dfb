"""SQL over the rows of a corpus, and over nothing else."""

import csv
import re
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest

import thalweg as tw
from tests.conftest import missing
from tests.corpus.folders import read_rows, sentences
from tests.tiny import tiny_subject
from thalweg.corpus.query import TABLES, export_csv, query
from thalweg.corpus.run import run_corpus
from thalweg.errors import MissingExtraError


@pytest.fixture(autouse=True)
def duckdb() -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards with one failed text."""
    place = tmp_path_factory.mktemp("corpus")
    (place / "texts.jsonl").write_text("\n".join([*(f'{{"text": "{text}"}}' for text in sentences(7)), "broken"]))
    run_corpus(
        tiny_subject("bert"),
        place / "texts.jsonl",
        place / "out",
        ["attention_rollout", "alti:layer=9", "alti"],
        shard=4,
    )
    return place / "out"


def test_query_when_it_selects_rows_then_returns_what_is_stored(folder: Path) -> None:
    result = query(folder, "SELECT text, line, error IS NULL AS good, tokens FROM rows ORDER BY text")
    assert result.columns == ("text", "line", "good", "tokens")
    assert list(result.rows) == [
        (row["text"], row["line"], row["error"] is None, row["tokens"]) for row in read_rows(folder)
    ]
    assert [row[2] for row in result.rows] == [True] * 7 + [False]


def test_query_when_it_selects_other_tables_then_they_are_the_lists_unnested(folder: Path) -> None:
    rows = read_rows(folder)
    scores = query(folder, "SELECT text, method, entropy, error IS NULL FROM scores ORDER BY text")
    assert sorted(scores.rows, key=str) == sorted(
        (
            (row["text"], entry["method"], entry["entropy"], entry["error"] is None)
            for row in rows
            for entry in row["methods"] or []
        ),
        key=str,
    )
    sources = query(folder, "SELECT text, method, position, token, score FROM sources ORDER BY text, method, place")
    assert list(sources.rows) == [
        (row["text"], entry["method"], source["position"], source["token"], source["score"])
        for row in rows
        for entry in sorted(row["methods"] or [], key=lambda entry: entry["method"])
        for source in entry["sources"] or []
    ]
    for name in ("layers", "heads", "checks", "agreement"):
        stored = [entry for row in rows for entry in row[name] or []]
        result = query(folder, f"SELECT {', '.join(stored[0])} FROM {name}")
        assert sorted(map(str, result.rows)) == sorted(str(tuple(entry.values())) for entry in stored)


def test_tables_when_queried_then_begin_with_the_answer_of_the_text(folder: Path) -> None:
    answers = {row["text"]: (row["prediction"], row["probability"]) for row in read_rows(folder)}
    for name in TABLES:
        result = query(folder, f"SELECT * FROM {name}")
        assert result.columns[:4] == ("text", "id", "prediction", "probability")
        assert all(row[2:4] == answers[row[0]] for row in result.rows)
    words = query(folder, "SELECT word, share FROM words WHERE text = 3 AND method = 'alti'")
    row = read_rows(folder)[3]
    shares = next(entry["word_shares"] for entry in row["methods"] if entry["method"] == "alti")
    assert list(words.rows) == [(word["word"], share) for word, share in zip(row["words"], shares, strict=True)]


def test_export_when_written_then_has_the_plain_columns_of_every_row(folder: Path, tmp_path: Path) -> None:
    assert export_csv(folder, "rows", tmp_path / "rows.csv") == 8
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["content"] for row in rows] == [*sentences(7), ""]
    assert not {"methods", "words", "heads"} & set(rows[0])
    assert export_csv(folder, "words", tmp_path / "words.csv") == sum(2 * len(text.split()) for text in sentences(7))
    with pytest.raises(tw.InputError, match=r"unknown table 'word'; did you mean 'words'\?"):
        export_csv(folder, "word", tmp_path / "words.csv")


@pytest.mark.parametrize(
    "sql",
    [
        "COPY rows TO '{}/copy.csv'",
        "COPY (SELECT 1) TO '{}/copy.parquet'",
        "SELECT * FROM read_text('{}/run.json')",
        "SELECT * FROM '{}/shard-000000.parquet'",
        "ATTACH '{}/base.db' AS base",
        "EXPORT DATABASE '{}/all'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "RESET enable_external_access",
        "INSERT INTO rows SELECT * FROM rows",
        "SELECT * FROM folder",
        "SELECT 1; COPY (SELECT 1) TO '{}/second.csv'",
        "SELEC text",
        "SELECT nothing FROM rows",
        "",
    ],
)
def test_query_when_it_reaches_beyond_the_rows_then_is_refused(folder: Path, sql: str) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(tw.InputError, match=r"DuckDB cannot run the query|returns nothing.*SELECT from rows"):
        query(folder, sql.format(folder))
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_result_when_values_have_no_json_type_then_become_null_or_text(folder: Path) -> None:
    result = query(folder, "SELECT 'nan'::DOUBLE, DATE '2024-02-29', 1.5, [{'a': 'inf'::DOUBLE}], NULL, true")
    assert result.to_dict()["rows"] == [[None, "2024-02-29", "1.5", [{"a": None}], None, True]]


def test_query_when_the_folder_has_no_rows_then_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="not the folder of a corpus run"):
        query(tmp_path, "SELECT 1")
    (tmp_path / "run.json").write_bytes((folder / "run.json").read_bytes())
    with pytest.raises(tw.InputError, match="no shards yet"):
        query(tmp_path, "SELECT 1")


def test_query_when_a_shard_is_damaged_then_names_it(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copytree(folder, copy)
    shard = copy / "shard-000000.parquet"
    content = bytearray(shard.read_bytes())
    content[4 : len(content) // 4] = bytes(len(content) // 4 - 4)  # rows, not the metadata at the end
    shard.write_bytes(content)
    for read in (lambda: query(copy, "SELECT * FROM rows"), lambda: tw.Corpus.load(copy).summary()):
        with pytest.raises(tw.InputError, match=r"shard-000000\.parquet is damaged"):
            read()


def test_query_when_duckdb_is_missing_then_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"install thalweg\[corpus\]"):
        query(folder, "SELECT 1")


def test_tables_when_listed_then_each_can_be_queried(folder: Path) -> None:
    for name in TABLES:
        assert query(folder, f"SELECT count(*) FROM {name}").rows[0][0] > 0


def test_docs_when_their_queries_are_run_then_they_work(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "corpus.md").read_text()
    (block,) = re.findall(r"```sql\n(.*?)```", page, re.S)
    queries = [sql for sql in block.split(";") if sql.strip()]
    assert len(queries) >= 5
    for sql in queries:
        assert query(folder, sql).rows, sql
