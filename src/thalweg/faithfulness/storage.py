"""The folder of a run: a Parquet file for each example as it goes, one for all in the end, and what was asked."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thalweg.errors import InputError, MissingExtraError
from thalweg.files import draft_of

SCHEMA = 1
HEADER, WHOLE = "bench.json", "rows.parquet"

Row = dict[str, Any]  # one method on one example


class Folder:
    """Rows of one configuration; a folder that holds another run, or anything else, is refused.

    Without a path rows are kept in memory only.
    """

    def __init__(
        self,
        path: Path | None,
        configuration: Mapping[str, Any],
        provenance: Mapping[str, str],
        metrics: Sequence[str],
    ) -> None:
        self.path, self.configuration, self.metrics = path, dict(configuration), tuple(metrics)
        self.provenance = dict(provenance)
        self.rows: dict[int, list[Row]] = {}
        if path is None:
            return
        _parquet()
        if path.exists() and not path.is_dir():
            raise InputError(f"{str(path)!r} is a file; expected a folder that is new or empty")
        try:
            self._open(path)
        except OSError as error:
            raise InputError(f"cannot write into {str(path)!r}: {error.strerror or error}") from error

    def _open(self, path: Path) -> None:
        header = path / HEADER
        if header.exists():
            _compare(path, read_header(path)["configuration"], self.configuration)
        elif path.is_dir() and any(one.suffix != ".draft" for one in path.iterdir()):
            raise InputError(f"{str(path)!r} holds files that are not of a bench; choose a new or an empty folder")
        path.mkdir(parents=True, exist_ok=True)
        for one in path.glob("*.draft"):  # of a run that was killed while it wrote
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
                part.unlink()
        return everything

    def _write(self, file: Path, rows: list[Row]) -> None:
        pyarrow, parquet = _parquet()
        try:
            with draft_of(file) as draft:
                parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema(self.metrics)), draft)
        except OSError as error:
            raise InputError(f"cannot write {str(file)!r}: {error.strerror or error}") from error


def schema(metrics: Sequence[str]) -> Any:
    """The columns of a row: what was asked, what it cost, the ranking, and a value for every metric."""
    pyarrow, _ = _parquet()
    text, whole, number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    return pyarrow.schema(
        [
            ("example", whole),
            ("method", text),
            ("error", text),
            ("prediction", text),
            ("answer", number),
            ("passes", whole),
            ("metric_passes", whole),
            ("asked", whole),
            ("seconds", number),
            ("sum_error", number),
            ("tokens", pyarrow.list_(text)),
            ("scores", pyarrow.list_(number)),
            *((name, number) for name in metrics),
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
        if file.exists():
            try:
                table = parquet.read_table(file)
            except (OSError, pyarrow.ArrowException) as error:
                raise InputError(f"{str(file)!r} cannot be read: {error}") from error
            for row in table.to_pylist():
                found.setdefault((row["example"], row["method"]), row)
    return list(found.values())


def _compare(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    different = [name for name in dict.fromkeys([*there, *here]) if there.get(name) != here.get(name)]
    if different:
        raise InputError(
            f"{str(path)!r} holds a run with another choice of {', '.join(different)}; give the same again to go on "
            "with it, or choose another folder"
        )


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("a bench writes Parquet: install thalweg[bench]") from error
    return pyarrow, parquet
