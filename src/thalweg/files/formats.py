"""Rows of .csv, .tsv, .jsonl and .parquet files, one at a time; a bad row is yielded as an error in its place."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from thalweg.errors import InputError, MissingExtraError, nearest_name
from thalweg.files.lines import MAX_LINE_CHARACTERS, read_lines, unreadable

PARQUET_ROWS = 1024  # held at a time
PARQUET_BYTES = 2**20  # read at a time
Rows = Iterator[tuple[int, Sequence[Any] | InputError]]  # the line of a row, and its cells in the order of the columns
T = TypeVar("T")


def table_rows(file: Path, columns: Sequence[str]) -> Rows:
    """The cells of some columns, row by row; raises if a column does not exist."""
    return READERS[file.suffix.lower()](file, columns)


def read_columns(file: Path) -> list[str]:
    """The columns of a table, for .jsonl those of its first line; none for a list of texts."""
    kind = file.suffix.lower()
    if kind not in READERS:
        return []
    if kind == ".parquet":
        with _parquet_file(file) as table:
            return list(table.schema_arrow.names)
    first = valid(next(read_lines(file))[1])
    if kind == ".jsonl":
        try:
            row = json.loads(first)
        except (ValueError, RecursionError):
            return []  # reading the rows raises the error with its line
        return list(row) if isinstance(row, dict) else []
    return first.split("\t") if kind == ".tsv" else next(csv.reader([first]), [])


def valid(item: T | InputError) -> T:
    """Return the item, or raise it if it is an error."""
    if isinstance(item, InputError):
        raise item
    return item


def _csv(file: Path, columns: Sequence[str]) -> Rows:
    """Cells may be quoted, and quoted cells may hold commas and line breaks."""
    return _selected(file, _csv_lines(file), columns)


def _csv_lines(file: Path) -> Iterator[tuple[int, list[str] | InputError]]:
    """Rows of cells; after a bad row, the next line begins a new one."""
    source = _LineSource(file)
    reader = csv.reader(source, strict=True)
    while True:
        first = source.number + 1  # a quoted cell may span several lines
        before = csv.field_size_limit(MAX_LINE_CHARACTERS)  # a global setting, and too low for long texts
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            last = f" (read up to line {source.number})" if source.number > first else ""
            cells = InputError(f"line {first} of {file} is not valid CSV: {error}{last}")
        except _BadLineError as error:
            cells = error.reason
        finally:
            csv.field_size_limit(before)
        yield first, cells


class _BadLineError(Exception):
    """Carries the error of a line through the csv module."""

    def __init__(self, reason: InputError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _LineSource:
    """Lines for the csv module, and the number of the last one. Unlike a generator, it survives an exception."""

    def __init__(self, file: Path) -> None:
        self.lines, self.number = read_lines(file), 0

    def __iter__(self) -> "_LineSource":
        return self

    def __next__(self) -> str:
        self.number, line = next(self.lines)
        if isinstance(line, InputError):
            raise _BadLineError(line)
        return f"{line}\n"


def _tsv(file: Path, columns: Sequence[str]) -> Rows:
    """Cells end at a tab; quotation marks are ordinary text."""
    lines = (
        (n, line if isinstance(line, InputError) else line.split("\t") if line else []) for n, line in read_lines(file)
    )
    return _selected(file, lines, columns)


def _selected(file: Path, lines: Iterator[tuple[int, list[str] | InputError]], columns: Sequence[str]) -> Rows:
    """The cells of some columns; the first line holds the names."""
    head = valid(next(lines)[1])
    repeated = sorted({name for name in columns if head.count(name) > 1})
    if repeated:
        raise InputError(f"{file} has more than one column {repeated[0]!r}; rename them")
    for column in columns:
        if column not in head:
            raise _no_column(str(file), column, head)
    places = [head.index(column) for column in columns]
    for number, cells in _without_trailing(lines):
        if cells is None:
            yield number, [None for _ in columns]
        elif isinstance(cells, InputError):
            yield number, cells
        elif len(cells) != len(head):
            yield number, InputError(f"line {number} of {file} has {len(cells)} cells, expected {len(head)}")
        else:
            yield number, [cells[place] for place in places]


def _without_trailing(lines: Iterable[tuple[int, T | InputError]]) -> Iterator[tuple[int, T | InputError | None]]:
    """Blank lines as None; those at the end of the file are dropped."""
    blank = range(0)  # not a list: a file may end with millions of them
    for number, content in lines:
        if not isinstance(content, InputError) and not content:
            blank = range(blank.start if blank else number, number + 1)
            continue
        yield from ((line, None) for line in blank)
        blank = range(0)
        yield number, content


def _jsonl(file: Path, columns: Sequence[str]) -> Rows:
    lines = ((n, line if isinstance(line, InputError) or line.strip() else "") for n, line in read_lines(file))
    for number, line in _without_trailing(lines):
        if line is None:
            yield number, [None for _ in columns]
        else:
            yield number, line if isinstance(line, InputError) else _json_cells(file, number, line, columns)


def _json_cells(file: Path, number: int, line: str, columns: Sequence[str]) -> list[Any] | InputError:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # also for numbers with too many digits
        return InputError(f"line {number} of {file} is not valid JSON: {error}")
    if not isinstance(row, dict):
        return InputError(f"line {number} of {file} is not a JSON object; expected an object with {columns[0]!r}")
    for column in columns:
        if column not in row:
            return _no_column(f"line {number} of {file}", column, row)
    return [row[column] for column in columns]


def _parquet(file: Path, columns: Sequence[str]) -> Rows:
    with _parquet_file(file) as table:
        for column in columns:
            if column not in table.schema_arrow.names:
                raise _no_column(str(file), column, table.schema_arrow.names)
        first = 1
        for batch in table.iter_batches(batch_size=PARQUET_ROWS, columns=list(columns)):
            arrays = [batch.column(column) for column in columns]
            yield from ((first + row, _parquet_cells(file, first + row, arrays, row)) for row in range(batch.num_rows))
            first += batch.num_rows


def _parquet_cells(file: Path, line: int, arrays: Sequence[Any], row: int) -> list[Any] | InputError:
    try:
        return [array[row].as_py() for array in arrays]
    except UnicodeDecodeError as error:
        place = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        return InputError(f"line {line} of {file} is not valid UTF-8 ({place})")


@contextmanager
def _parquet_file(file: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError("reading .parquet needs pyarrow: install thalweg[data]") from error
    try:
        with parquet.ParquetFile(file, buffer_size=PARQUET_BYTES) as table:
            yield table
    except OSError as error:
        raise unreadable(file, error) from error
    except ArrowException as error:
        raise InputError(f"{file} is not a readable Parquet file: {error}") from error


def _no_column(place: str, column: str, columns: Iterable[str]) -> InputError:
    return InputError(f"{place} has no column {column!r}; {nearest_name(column, columns)}")


READERS: dict[str, Callable[[Path, Sequence[str]], Rows]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
