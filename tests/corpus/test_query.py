"""SQL over the rows, and over nothing else."""

import re
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest

import thalweg as tw
from tests.conftest import missing
from tests.corpus.folders import read, sentences
from tests.tiny import tiny_subject
from thalweg.corpus.query import VIEWS, query
from thalweg.corpus.run import run_corpus
from thalweg.errors import MissingExtraError


@pytest.fixture(autouse=True)
def duckdb() -> None:
    if find_spec("duckdb") is None:
        missing("duckdb is not installed: thalweg[corpus]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards, in which one text has failed."""
    place = tmp_path_factory.mktemp("corpus")
    (place / "texts.jsonl").write_text("\n".join([*(f'{{"text": "{one}"}}' for one in sentences(7)), "broken"]))
    run_corpus(
        tiny_subject("bert"),
        place / "texts.jsonl",
        place / "out",
        ["attention_rollout", "alti:layer=9", "alti"],
        shard=4,
    )
    return place / "out"


def test_query_when_it_asks_for_rows_then_gives_what_is_stored(folder: Path) -> None:
    found = query(folder, "SELECT text, line, error IS NULL AS good, tokens FROM rows ORDER BY text")
    assert found.columns == ("text", "line", "good", "tokens")
    assert list(found.rows) == [(row["text"], row["line"], row["error"] is None, row["tokens"]) for row in read(folder)]
    assert [row[2] for row in found.rows] == [True] * 7 + [False]


def test_query_when_it_asks_for_views_then_they_are_the_lists_unnested(folder: Path) -> None:
    rows = read(folder)
    scores = query(folder, "SELECT text, method, entropy, error IS NULL FROM scores ORDER BY text")
    assert sorted(scores.rows, key=str) == sorted(
        (
            (row["text"], one["method"], one["entropy"], one["error"] is None)
            for row in rows
            for one in row["methods"] or []
        ),
        key=str,
    )
    sources = query(folder, "SELECT text, method, position, token, score FROM sources ORDER BY text, method, place")
    assert list(sources.rows) == [
        (row["text"], one["method"], source["position"], source["token"], source["score"])
        for row in rows
        for one in sorted(row["methods"] or [], key=lambda one: one["method"])
        for source in one["sources"] or []
    ]
    for name in ("layers", "heads", "checks", "agreement"):
        stored = [entry for row in rows for entry in row[name] or []]
        found = query(folder, f"SELECT {', '.join(stored[0])} FROM {name}")
        assert sorted(map(str, found.rows)) == sorted(str(tuple(entry.values())) for entry in stored)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY rows TO '{}/copy.csv'",
        "COPY (SELECT 1) TO '{}/copy.parquet'",
        "SELECT * FROM read_text('{}/corpus.json')",
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
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    with pytest.raises(tw.InputError, match=r"DuckDB refuses the query|asks for nothing"):
        query(folder, sql.format(folder))
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_query_when_numbers_have_no_name_in_json_then_become_null_or_text(folder: Path) -> None:
    found = query(folder, "SELECT 'nan'::DOUBLE, DATE '2024-02-29', 1.5, [{'a': 'inf'::DOUBLE}], NULL, true")
    assert found.to_dict()["rows"] == [[None, "2024-02-29", "1.5", [{"a": None}], None, True]]


def test_query_when_there_is_nothing_to_ask_then_says_so(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="holds no corpus"):
        query(tmp_path, "SELECT 1")
    (tmp_path / "corpus.json").write_bytes((folder / "corpus.json").read_bytes())
    with pytest.raises(tw.InputError, match="holds no shard yet"):
        query(tmp_path, "SELECT 1")


def test_query_when_a_shard_is_damaged_then_names_it(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "copy"
    copytree(folder, there)
    shard = there / "shard-000000.parquet"
    whole = bytearray(shard.read_bytes())
    whole[4 : len(whole) // 4] = bytes(len(whole) // 4 - 4)  # rows, not what is said of them at the end
    shard.write_bytes(whole)
    for ask in (lambda: query(there, "SELECT * FROM rows"), lambda: tw.Corpus.load(there).summary()):
        with pytest.raises(
            tw.InputError, match=r"shard-000000.parquet' cannot be read.*remove it to have its texts run again"
        ):
            ask()


def test_query_when_duckdb_is_missing_then_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"install thalweg\[corpus\]"):
        query(folder, "SELECT 1")


def test_views_when_listed_then_each_can_be_asked(folder: Path) -> None:
    for name in VIEWS:
        assert query(folder, f"SELECT count(*) FROM {name}").rows[0][0] > 0


def test_page_when_its_queries_are_asked_then_they_work(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "corpus.md").read_text()
    (block,) = re.findall(r"```sql\n(.*?)```", page, re.S)
    queries = [one for one in block.split(";") if one.strip()]
    assert len(queries) >= 5
    for one in queries:
        assert query(folder, one).rows, one
