"""SQL over the rows of a corpus with DuckDB, which sees the rows and nothing else on the machine."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.corpus.shard_store import ROWS, read_run
from thalweg.errors import InputError, MissingExtraError, unknown_name
from thalweg.files.atomic import draft_of
from thalweg.jsonable import jsonable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from rich.console import RenderableType

CSV_ROWS = 4096  # written at a time
ANSWER = "text, id, prediction, probability"  # first in every table
TABLES = {
    "rows": f"SELECT {ANSWER}, * EXCLUDE ({ANSWER}) FROM shards",
    "scores": (
        f"SELECT {ANSWER}, target, position, token, tokens, m.method, m.error, m.entropy, m.special_share, "
        "m.own_share, m.sum FROM (SELECT *, unnest(methods) AS m FROM shards)"
    ),
    "sources": (
        f"SELECT {ANSWER}, target, method, s.position, s.token, s.score, place "
        f"FROM (SELECT {ANSWER}, target, m.method AS method, unnest(m.sources) AS s, "
        "generate_subscripts(m.sources, 1) AS place FROM (SELECT *, unnest(methods) AS m FROM shards))"
    ),
    "words": (
        f"SELECT {ANSWER}, method, w.word, w.start, share "
        f"FROM (SELECT {ANSWER}, m.method AS method, unnest(words) AS w, unnest(m.word_shares) AS share "
        "FROM (SELECT *, unnest(methods) AS m FROM shards) WHERE m.word_shares IS NOT NULL)"
    ),
    "agreement": f"SELECT {ANSWER}, target, unnest(agreement, recursive := true) FROM shards",
    "layers": f"SELECT {ANSWER}, tokens, unnest(layers, recursive := true) FROM shards",
    "heads": f"SELECT {ANSWER}, tokens, unnest(heads, recursive := true) FROM shards",
    "checks": f"SELECT {ANSWER}, unnest(checks, recursive := true) FROM shards",
}


@dataclass(frozen=True)
class QueryResult:
    """The columns and rows that a query returned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __rich__(self) -> "RenderableType":
        from thalweg.corpus.view import query_text

        return query_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, ready for JSON; values without a JSON type, such as dates, become strings."""
        return {"columns": list(self.columns), "rows": [[_json_value(cell) for cell in row] for row in self.rows]}


def query(folder: str | Path, sql: str) -> QueryResult:
    """Query the rows of a folder in SQL, also while a run is writing to it.

    `rows` has a row per text and target, as stored; `scores` one per method, `sources` one per source that was kept,
    `words` one per word and method; `agreement`, `layers`, `heads` and `checks` are the lists of that name, unnested.
    Every table begins with the number, id, prediction and probability of the text. Queries can read nothing else and
    cannot write.
    """
    with connect(folder) as connection:
        connection.execute("SET lock_configuration = true")
        result = connection.execute(sql)
        if result is None or not result.description:
            raise InputError(f"the query {sql!r} returns nothing; expected a SELECT from {', '.join(TABLES)}")
        return QueryResult(tuple(column[0] for column in result.description), tuple(result.fetchall()))


def export_csv(folder: str | Path, table: str, file: str | Path) -> int:
    """Write a table of `query` as CSV, without its columns of lists, and return the number of rows.

    Rows are streamed, also while a run is writing to the folder.
    """
    check_table(table)
    with connect(folder) as connection:
        connection.execute("SET threads = 1")  # rows in their order
        types = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}
        flat = [name for name, kind in types.items() if not kind.endswith("[]")]
        result = connection.execute(f"SELECT {', '.join(flat)} FROM {table}")
        count = 0
        with draft_of(Path(file)) as draft, open(draft, "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            writer.writerow(flat)
            while rows := result.fetchmany(CSV_ROWS):
                writer.writerows(rows)
                count += len(rows)
    return count


def check_table(name: str) -> None:
    """Raise unless there is a table with this name."""
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)


@contextmanager
def connect(folder: str | Path) -> "Iterator[DuckDBPyConnection]":
    """Open a DuckDB connection with the tables of a folder, as far as they have been written, and without files."""
    path = Path(folder)
    _, labels = read_run(path)
    if not labels:
        raise InputError(f"{path} has no shards yet; wait for its run, or resume it")
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("queries need DuckDB: install thalweg[corpus]") from error
    from pyarrow import ArrowException, dataset

    connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    try:
        connection.register("shards", dataset.dataset([str(path / ROWS.format(number)) for number in sorted(labels)]))
        for name, sql in TABLES.items():
            connection.execute(f"CREATE VIEW {name} AS {sql}")
        connection.execute("SET enable_external_access = false")
        yield connection
    except (duckdb.Error, ArrowException, OSError) as error:
        raise InputError(f"DuckDB cannot run the query: {' '.join(str(error).split())}") from error
    finally:
        connection.close()


def _json_value(cell: Any) -> Any:
    if isinstance(cell, dict):
        return {str(name): _json_value(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_json_value(entry) for entry in cell]
    return jsonable(cell) if cell is None or isinstance(cell, bool | int | float | str) else str(cell)
