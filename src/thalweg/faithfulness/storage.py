"""The folder of a run: a Parquet file for each example as it goes, one for all in the end, and what was asked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thalweg.errors import InputError, MissingExtraError
from thalweg.faithfulness.registry import list_metrics
from thalweg.files.atomic import alone, check_same, draft_of, make_folder

SCHEMA = 2
HEADER, WHOLE = "bench.json", "rows.parquet"

Row = dict[str, Any]  # one method on one example


class Folder:
    """Rows of one configuration; a folder that holds another run, or anything else, is refused.

    Without a path rows are kept in memory only.
    """

    def __init__(self, path: Path | None, configuration: Mapping[str, Any], provenance: Mapping[str, str]) -> None:
        self.path, self.configuration, self.provenance = path, dict(configuration), dict(provenance)
        self.rows: dict[int, list[Row]] = {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Read what is there, and keep other processes out for as long as rows are written."""
        if self.path is None:
            yield
            return
        _parquet()
        make_folder(self.path)
        with alone(self.path):
            try:
                self._open(self.path)
            except OSError as error:
                raise InputError(f"cannot write into {str(self.path)!r}: {error.strerror or error}") from error
            yield

    def _open(self, path: Path) -> None:
        header = path / HEADER
        if header.exists():
            check_same(path, read_header(path)["configuration"], self.configuration)
        elif any(not _is_draft(one) for one in path.iterdir()):
            raise InputError(f"{str(path)!r} holds files that are not of a bench; choose a new or an empty folder")
        for one in filter(_is_draft, path.iterdir()):  # of a run that was killed while it wrote
            one.unlink()
        if not header.exists():
            with draft_of(header) as draft:
                head = {"schema": SCHEMA, "configuration": self.configuration, "provenance": self.provenance}
                text = json.dumps(head, ensure_ascii=False, indent=1)
                Path(draft).write_text(text + "\n", encoding="utf-8")
        for row in read_rows(path):
            self.rows.setdefault(row["example"], []).append(row)

    def add(self, number: int, rows: list[Row]) -> None:
        """The rows of one example, whole or not at all."""
        self.rows[number] = rows
        if self.path is not None:
            self._write(self.path / f"rows-{number:06d}.parquet", rows)

    def finish(self) -> list[Row]:
        """All rows in one file, after which those of single examples are not needed."""
        everything = [row for number in sorted(self.rows) for row in self.rows[number]]
        if self.path is not None and (parts := sorted(self.path.glob("rows-*.parquet"))):
            self._write(self.path / WHOLE, everything)
            for part in parts:
                part.unlink(missing_ok=True)
        return everything

    def _write(self, file: Path, rows: list[Row]) -> None:
        pyarrow, parquet = _parquet()
        try:
            with draft_of(file) as draft:
                columns = schema(self.configuration["metrics"])
                parquet.write_table(pyarrow.Table.from_pylist(rows, schema=columns), draft)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot write into {str(self.path)!r}: {error.strerror or error}; rows that were written before are kept, "
            "and the same command goes on from there"
        )


def schema(metrics: Sequence[str]) -> Any:
    """The columns of a row: what was asked, what it cost, the ranking, and a value for every metric.

    Which direction is better stands with the column of a metric, for whoever reads the file without us.
    """
    pyarrow, _ = _parquet()
    text, whole, number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    return pyarrow.schema(
        [
            ("example", whole),
            ("method", text),
            ("error", text),
            ("prediction", text),
            ("answer", number),
            ("shared_passes", whole),
            ("passes", whole),
            ("metric_passes", whole),
            ("asked", whole),
            ("seconds", number),
            ("sum_error", number),
            ("tokens", pyarrow.list_(text)),
            ("scores", pyarrow.list_(number)),
            *(
                pyarrow.field(one.name, number, metadata={"better": one.direction, "role": one.role})
                for one in map(list_metrics().__getitem__, metrics)
            ),
        ]
    )


def read_header(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{str(folder)!r} holds no bench: give the folder of a run") from error
    if (
        not isinstance(found, dict)
        or found.get("schema") != SCHEMA
        or not {"configuration", "provenance"} <= set(found)
    ):
        raise InputError(f"{str(folder / HEADER)!r} is of no bench that this version reads (schema {SCHEMA})")
    return found


def read_rows(folder: Path) -> list[Row]:
    """What a run has written so far, by example; one that stands in two files after a kill counts once."""
    pyarrow, parquet = _parquet()
    found: dict[tuple[int, str], Row] = {}
    for file in [*sorted(folder.glob("rows-*.parquet")), folder / WHOLE]:
        try:
            table = parquet.read_table(file)
        except FileNotFoundError:  # not there yet, or no longer: a run that ends puts all rows into one file
            continue
        except (OSError, pyarrow.ArrowException) as error:
            raise InputError(
                f"{str(file)!r} cannot be read: {error}; remove it to have its examples run again"
            ) from error
        for row in table.to_pylist():
            found.setdefault((row["example"], row["method"]), row)
    return list(found.values())


def _is_draft(file: Path) -> bool:
    return file.name.startswith((HEADER, "rows")) and file.suffix == ".draft"


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("a bench writes Parquet: install thalweg[bench]") from error
    return pyarrow, parquet
