"""SQL over the rows of a corpus, by DuckDB, which is given the rows and nothing else of the machine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.corpus.rows import parquet
from thalweg.corpus.storage import read_header, read_marks, shard_files, unreadable
from thalweg.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from rich.console import RenderableType

VIEWS = {
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
class Answer:
    """The rows that a query gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __rich__(self) -> "RenderableType":
        from thalweg.corpus.view import answer_text

        return answer_text(self)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, ready for JSON; what JSON has no word for becomes text."""
        return {"columns": list(self.columns), "rows": [[_plain(cell) for cell in row] for row in self.rows]}


def query(folder: str | Path, sql: str) -> Answer:
    """Ask in SQL what the shards of a folder say, also while a run still writes into it.

    `rows` has a row for each text and target, as stored; `scores` for each method besides, `sources` for each of its
    sources; `agreement`, `layers`, `heads` and `checks` are the lists of that name, unnested. Nothing else can be
    read, and nothing written.
    """
    with connected(folder) as connection:
        connection.execute("SET lock_configuration = true")
        found = connection.execute(sql)
        if found is None or not found.description:
            raise InputError(f"the query {sql!r} asks for nothing; expected a SELECT over {', '.join(VIEWS)}")
        return Answer(tuple(one[0] for one in found.description), tuple(found.fetchall()))


@contextmanager
def connected(folder: str | Path, sealed: bool = True) -> "Iterator[DuckDBPyConnection]":
    """DuckDB with the tables of a folder, as far as it is written.

    Sealed, as for SQL of somebody else, it sees nothing else of the machine. Otherwise it reads the shards by itself,
    in memory that does not grow with their number.
    """
    path = Path(folder)
    header = read_header(path)
    if not read_marks(path, header["configuration_hash"]):
        raise InputError(f"{str(folder)!r} holds no shard yet; let its run go on first")
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("a query needs DuckDB: install thalweg[corpus]") from error
    parquet()
    from pyarrow import ArrowException, dataset

    connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    try:
        files = [str(file) for file in shard_files(path)]
        if sealed:
            connection.register("shards", dataset.dataset(files))
        else:
            connection.read_parquet([escape(file) for file in files], hive_partitioning=False).create_view("shards")
        for name, view in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {view}")
        if sealed:
            connection.execute("SET enable_external_access = false")
        yield connection
    except (duckdb.Error, ArrowException, OSError) as error:
        asked = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException)
        if not isinstance(error, asked):
            _check_readable(shard_files(path))
        raise InputError(f"DuckDB refuses the query: {' '.join(str(error).split())}") from error
    finally:
        connection.close()


def _check_readable(files: Sequence[Path]) -> None:
    """Say which shard is damaged, if one is."""
    pyarrow, reader = parquet()
    for file in files:
        try:
            reader.read_table(file)
        except (OSError, pyarrow.ArrowException) as error:
            raise unreadable(file, error) from error


def _plain(cell: Any) -> Any:
    if isinstance(cell, dict):
        return {str(name): _plain(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_plain(one) for one in cell]
    if isinstance(cell, float) and cell - cell != 0:  # JSON has no NaN and no infinity
        return None
    return cell if cell is None or isinstance(cell, bool | int | float | str) else str(cell)
