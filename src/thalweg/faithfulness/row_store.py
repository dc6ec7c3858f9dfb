"""Rows of a bench in Parquet: one file per example during the run, one for all of them at the end."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thalweg.errors import MissingExtraError
from thalweg.faithfulness.registry import Metric
from thalweg.files.run_folder import RunFolder, RunHeader, RunKind, check_intact, open_run

BENCH_RUN = RunKind("bench", 4)
ALL_ROWS, PART_NAME = "rows.parquet", re.compile(r"rows-\d{6,}\.parquet")
COUNTS = ("shared_passes", "method_passes", "metric_passes", "metric_requests")

Row = dict[str, Any]  # one method on one example


def empty_row(example: int, method: str, metrics: Sequence[Metric]) -> Row:
    """A row in which nothing is known yet."""
    unknown = ("error", "prediction", "answer", "seconds", "sum_error", "tokens", "scores")
    names = (*unknown, *(metric.name for metric in metrics))
    return {"example": example, "method": method, **dict.fromkeys(names), **dict.fromkeys(COUNTS, 0)}


@dataclass(eq=False)
class RowStore:
    """The rows of a run by example: in memory, and in a folder if there is one."""

    metrics: Sequence[Metric]
    folder: RunFolder | None = None
    rows: dict[int, list[Row]] = field(default_factory=dict)

    def add(self, example: int, rows: list[Row]) -> None:
        """Store all rows of one example."""
        self.rows[example] = rows
        self._write(f"rows-{example:06d}.parquet", rows)

    def finish(self) -> list[Row]:
        """Return all rows, and merge the files of single examples into one."""
        everything = [row for example in sorted(self.rows) for row in self.rows[example]]
        if self.folder is not None and (parts := _part_names(self.folder.path)):
            self._write(ALL_ROWS, everything)
            self.folder.remove(*parts)
        return everything

    def _write(self, name: str, rows: list[Row]) -> None:
        if self.folder is not None:
            pyarrow, parquet = _import_parquet()
            table = pyarrow.Table.from_pylist(rows, schema=_schema(self.metrics))
            with self.folder.draft(name) as draft:
                parquet.write_table(table, draft)


@contextmanager
def open_rows(path: Path | None, header: RunHeader, metrics: Sequence[Metric]) -> Iterator[RowStore]:
    """Start or resume a run in a folder; without a path rows are kept in memory."""
    if path is None:
        yield RowStore(metrics)
        return
    _import_parquet()
    with open_run(path, BENCH_RUN, header.identity, header.provenance) as folder:
        store = RowStore(metrics, folder)
        for row in _rows_of(path, folder.intact(*_part_names(path), ALL_ROWS)):
            store.rows.setdefault(row["example"], []).append(row)
        yield store


def read_rows(path: Path) -> list[Row]:
    """Read the rows that a run has written so far, also while it is running."""
    names = [*_part_names(path), ALL_ROWS]
    while True:
        present = [name for name in names if (path / name).exists()]
        try:
            check_intact(path, present)
            return _rows_of(path, present)
        except FileNotFoundError:  # merged meanwhile
            continue


def _rows_of(path: Path, names: Iterable[str]) -> list[Row]:
    """The rows of intact files. A run that was killed at its end may have left rows in two of them; they count once."""
    _, parquet = _import_parquet()
    rows: dict[tuple[int, str], Row] = {}
    for name in sorted(names):
        for row in parquet.read_table(path / name).to_pylist():
            rows.setdefault((row["example"], row["method"]), row)
    return list(rows.values())


def _part_names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if PART_NAME.fullmatch(entry.name))


def _schema(metrics: Sequence[Metric]) -> Any:
    """The columns of a row. The metadata of a metric's column say which direction is better."""
    pyarrow, _ = _import_parquet()
    text, count, number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    return pyarrow.schema(
        [
            ("example", count),
            ("method", text),
            ("error", text),
            ("prediction", text),
            ("answer", number),
            *((name, count) for name in COUNTS),
            ("seconds", number),
            ("sum_error", number),
            ("tokens", pyarrow.list_(text)),
            ("scores", pyarrow.list_(number)),
            *(
                pyarrow.field(metric.name, number, metadata={"better": metric.direction, "role": metric.role})
                for metric in metrics
            ),
        ]
    )


def _import_parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("bench writes Parquet; install thalweg[bench]") from error
    return pyarrow, parquet
