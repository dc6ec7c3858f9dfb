"""SQL over the rows of a corpus with DuckDB, which sees the rows and nothing else on the machine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.corpus.rows import import_parquet
from thalweg.corpus.shard_store import read_run, shard_files, unreadable_shard
from thalweg.errors import InputError, MissingExtraError
from thalweg.jsonable import jsonable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from rich.console import RenderableType

TABLES = {
    "rows": "SELECT * FROM shards",
    "scores": (
        "SELECT text, target, position, token, tokens, m.method, m.error, m.entropy, m.special_share, m.own_share, "
        "m.sum FROM (SELECT *, unnest(methods) AS m FROM shards)"
    ),
    "sources": (
        "SELECT text, target, method, s.position, s.token, s.score, place "
        "FROM (SELECT text, target, m.method AS method, unnest(m.sources) AS s, "
        "generate_subscripts(m.sources, 1) AS place FROM (SELECT text, target, unnest(methods) AS m FROM shards))"
    ),
    "agreement": "SELECT text, target, unnest(agreement, recursive := true) FROM shards",
    "layers": "SELECT text, tokens, unnest(layers, recursive := true) FROM shards",
    "heads": "SELECT text, tokens, unnest(heads, recursive := true) FROM shards",
    "checks": "SELECT text, unnest(checks, recursive := true) FROM shards",
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

    `rows` has a row per text and target, as stored; `scores` one per method, `sources` one per source that was kept;
    `agreement`, `layers`, `heads` and `checks` are the lists of that name, unnested. Queries can read nothing else and
    cannot write.
    """
    with connect(folder) as connection:
        connection.execute("SET lock_configuration = true")
        result = connection.execute(sql)
        if result is None or not result.description:
            raise InputError(f"the query {sql!r} returns nothing; expected a SELECT from {', '.join(TABLES)}")
        return QueryResult(tuple(column[0] for column in result.description), tuple(result.fetchall()))


@contextmanager
def connect(folder: str | Path, sealed: bool = True) -> "Iterator[DuckDBPyConnection]":
    """Open a DuckDB connection with the tables of a folder, as far as they have been written.

    A sealed connection, for SQL from users, has no access to files. An unsealed one reads the shards itself, in memory
    that does not grow with their number.
    """
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
        files = [str(file) for file in shard_files(path)]
        if sealed:
            connection.register("shards", dataset.dataset(files))
        else:
            connection.read_parquet([escape(file) for file in files], hive_partitioning=False).create_view("shards")
        for name, sql in TABLES.items():
            connection.execute(f"CREATE VIEW {name} AS {sql}")
        if sealed:
            connection.execute("SET enable_external_access = false")
        yield connection
    except (duckdb.Error, ArrowException, OSError) as error:
        query_errors = (
            duckdb.ParserException,
            duckdb.BinderException,
            duckdb.CatalogException,
            duckdb.PermissionException,
        )
        if not isinstance(error, query_errors):
            _check_readable(shard_files(path))
        raise InputError(f"DuckDB cannot run the query: {' '.join(str(error).split())}") from error
    finally:
        connection.close()


def _check_readable(files: Sequence[Path]) -> None:
    """Raise an error that names the first damaged shard, if any is."""
    pyarrow, parquet = import_parquet()
    for file in files:
        try:
            parquet.read_table(file)
        except (OSError, pyarrow.ArrowException) as error:
            raise unreadable_shard(file, error) from error


def _json_value(cell: Any) -> Any:
    if isinstance(cell, dict):
        return {str(name): _json_value(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_json_value(entry) for entry in cell]
    return jsonable(cell) if cell is None or isinstance(cell, bool | int | float | str) else str(cell)
