"""Texts and labels that a user has in a file: one text per line, or columns of CSV, TSV, JSONL or Parquet.

Files are read line by line and never held whole. Whoever reads a corpus gets what is wrong with a line in its place and
goes on (`stream_texts`); all others get it as an error.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from thalweg.errors import InputError, MissingExtraError

KINDS = (".csv", ".tsv", ".jsonl", ".parquet")
SHOWN = 5  # lines that an error names
LONGEST = 2**24  # characters of a line or a cell; a file of other things may have no line breaks at all
PARQUET_ROWS = 1024  # that are held at once
PARQUET_BYTES = 2**20
Lines = Iterator[tuple[int, str | InputError]]  # numbered from 1, without their ends; or what is wrong with one
Cells = Iterator[
    tuple[int, Sequence[Any] | InputError]
]  # the line a row stands in, and its cells in the order asked for
Empty = range  # numbers of lines with nothing in them, which count only if something follows


def read_texts(file: Path, column: str = "text", limit: int | None = None) -> list[str]:
    """The texts of a file, empty ones left out: one per line, or in a column of .csv, .tsv, .jsonl or .parquet."""
    texts = list(islice((_good(text) for _, text in stream_texts(file, column)), limit))
    if not texts:
        raise InputError(f"{str(file)!r} is empty; expected texts under {column!r}")
    return texts


def stream_texts(file: Path, column: str = "text") -> Lines:
    """The same one after the other, each with its line; where one cannot be read, what is wrong with it.

    An error that concerns the whole file (it is not there, has no such column, is empty) is raised.
    """
    if file.suffix.lower() not in KINDS:
        yield from ((line, text) for line, text in _lines(file) if isinstance(text, InputError) or text.strip())
        return
    for line, cells in _rows(file, (column,)):
        if isinstance(cells, InputError):
            yield line, cells
        elif not is_empty(cells[0]):
            try:
                yield line, as_text(file, line, column, cells[0])
            except InputError as error:
                yield line, error


def read_labelled(file: Path, text_column: str = "text", label_column: str = "label") -> tuple[list[str], list[str]]:
    """Texts and their labels, from .csv, .tsv, .jsonl or .parquet; a row that lacks either is an error.

    Labels may be text, whole numbers or yes and no; they become text.
    """
    if file.suffix.lower() not in KINDS:
        raise InputError(f"{str(file)!r} has no columns that can be read; expected one of {', '.join(KINDS)}")
    if text_column == label_column:
        raise InputError(f"texts and labels were both asked for under {text_column!r}; they are two columns")
    rows = list(read_rows(file, (text_column, label_column)))
    if not rows:
        raise InputError(f"{str(file)!r} has no rows; expected texts with labels")
    for place, column in enumerate((text_column, label_column)):
        lacking = [line for line, cells in rows if is_empty(cells[place])]
        if lacking:
            more = ", …" if len(lacking) > SHOWN else ""
            raise InputError(
                f"{len(lacking)} of {len(rows)} rows of {str(file)!r} have nothing under {column!r}: lines "
                f"{', '.join(map(str, lacking[:SHOWN]))}{more}; remove them or fill them in"
            )
    texts = [as_text(file, line, text_column, cells[0]) for line, cells in rows]
    return texts, [_label(file, line, label_column, cells[1]) for line, cells in rows]


def read_columns(file: Path) -> list[str]:
    """The names of a table's columns, of .jsonl those of its first line; none where the file is a list of texts."""
    kind = file.suffix.lower()
    if kind not in KINDS:
        return []
    if kind == ".parquet":
        with _opened(file) as table:
            return list(table.schema_arrow.names)
    first = _good(next(_lines(file))[1])
    if kind == ".jsonl":
        try:
            row = json.loads(first)
        except (ValueError, RecursionError):
            return []  # whoever reads the rows says what is wrong with the line
        return list(row) if isinstance(row, dict) else []
    return first.split("\t") if kind == ".tsv" else next(csv.reader([first]), [])


def read_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
    """The cells of some columns of a .csv, .tsv, .jsonl or .parquet, row by row."""
    return ((line, _good(cells)) for line, cells in _rows(file, columns))


def _rows(file: Path, columns: Sequence[str]) -> Cells:
    readers = {".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}
    return readers[file.suffix.lower()](file, columns)


def _good(found: Any) -> Any:
    """What was found, unless it is what is wrong with it."""
    if isinstance(found, InputError):
        raise found
    return found


def _lines(file: Path) -> Lines:
    """Lines ended by a line feed, a carriage return or both; of those that are too long only the beginning is held."""
    empty = True
    try:
        # bytes that are no UTF-8 come through as lone surrogates, so that one bad line does not spoil the others
        with file.open(encoding="utf-8-sig", errors="surrogateescape") as content:
            number = 0
            while line := content.readline(LONGEST + 1):
                number += 1
                empty = empty and not line.strip()
                end = line
                while len(end) > LONGEST and not end.endswith("\n"):
                    end = content.readline(LONGEST + 1)
                whole = line if end is line else None
                yield number, _readable(file, number, whole and whole.removesuffix("\n"))
    except OSError as error:
        raise _unreadable(file, error) from error
    if empty:
        raise InputError(f"{str(file)!r} is empty; expected a file of texts")


def _readable(file: Path, number: int, line: str | None) -> str | InputError:
    if line is None:
        return InputError(f"line {number} of {str(file)!r} has more than {LONGEST} characters; split it")
    if "\0" in line or not is_unicode(line):
        return InputError(f"line {number} of {str(file)!r} is no text in UTF-8; expected a file of texts")
    return line


def _csv(file: Path, columns: Sequence[str]) -> Cells:
    """Cells may be quoted, and quoted ones may hold commas and line breaks."""
    return _chosen(file, _csv_lines(file), columns)


def _csv_lines(file: Path) -> Iterator[tuple[int, list[str] | InputError]]:
    """Rows of cells; after one that cannot be read the next line begins a new one."""
    feed = _Feed(file)
    reader = csv.reader(feed, strict=True)
    while True:
        first = feed.number + 1  # a cell may go on over several lines
        before = csv.field_size_limit(LONGEST)  # the limit is everybody's, and too low for long texts
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            on = f", read up to line {feed.number}" if feed.number > first else ""
            cells = InputError(f"line {first} of {str(file)!r}{on} is no CSV: {error}")
        except _BadLineError as error:
            cells = error.found
        finally:
            csv.field_size_limit(before)
        yield first, cells


class _BadLineError(Exception):
    """A line that cannot be read, on its way through the csv module."""

    def __init__(self, found: InputError) -> None:
        super().__init__(str(found))
        self.found = found


class _Feed:
    """Lines with their ends, and the number of the last one. Unlike a generator it can go on after an error."""

    def __init__(self, file: Path) -> None:
        self.lines, self.number = _lines(file), 0

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        self.number, line = next(self.lines)
        if isinstance(line, InputError):
            raise _BadLineError(line)
        return f"{line}\n"


def _tsv(file: Path, columns: Sequence[str]) -> Cells:
    """Cells end at a tab; a quotation mark is text like any other."""
    lines = (
        (n, line if isinstance(line, InputError) else line.split("\t") if line else []) for n, line in _lines(file)
    )
    return _chosen(file, lines, columns)


def _chosen(file: Path, lines: Iterator[tuple[int, list[str] | InputError]], columns: Sequence[str]) -> Cells:
    """Of lines of cells, the first of which names them, those of some columns; empty lines at the end do not count."""
    head = _good(next(lines)[1])
    twice = sorted({name for name in columns if head.count(name) > 1})
    if twice:
        raise InputError(f"{str(file)!r} has more than one column {twice[0]!r}; give each its own name")
    places = [_place(file, head, column) for column in columns]
    empty = Empty(0)
    for number, cells in lines:
        if not isinstance(cells, InputError) and not cells:
            empty = Empty(empty.start if empty else number, number + 1)
            continue
        yield from ((line, [None for _ in columns]) for line in empty)
        empty = Empty(0)
        if isinstance(cells, InputError):
            yield number, cells
        elif len(cells) != len(head):
            counts = f"has {len(cells)} cells, but its first line names {len(head)} columns"
            yield number, InputError(f"line {number} of {str(file)!r} {counts}")
        else:
            yield number, [cells[place] for place in places]


def _place(file: Path, head: Sequence[str], column: str) -> int:
    if column not in head:
        raise _no_column(file, column, head)
    return head.index(column)


def _jsonl(file: Path, columns: Sequence[str]) -> Cells:
    empty = Empty(0)
    for number, line in _lines(file):
        if not isinstance(line, InputError) and not line.strip():
            empty = Empty(empty.start if empty else number, number + 1)
            continue
        yield from ((one, [None for _ in columns]) for one in empty)
        empty = Empty(0)
        yield number, line if isinstance(line, InputError) else _json_cells(file, number, line, columns)


def _json_cells(file: Path, number: int, line: str, columns: Sequence[str]) -> list[Any] | InputError:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # also of numbers with too many digits
        return InputError(f"line {number} of {str(file)!r} is no JSON: {error}")
    if not isinstance(row, dict):
        return InputError(f"line {number} of {str(file)!r} is no JSON object; expected one with {columns[0]!r}")
    for column in columns:
        if column not in row:
            return _no_column(file, column, row, f"line {number} of ")
    return [row[column] for column in columns]


def _parquet(file: Path, columns: Sequence[str]) -> Cells:
    with _opened(file) as table:
        for column in columns:
            if column not in table.schema_arrow.names:
                raise _no_column(file, column, table.schema_arrow.names)
        first = 1
        for batch in table.iter_batches(batch_size=PARQUET_ROWS, columns=list(columns)):
            found = [batch.column(column) for column in columns]
            yield from ((first + row, _parquet_cells(file, first + row, found, row)) for row in range(batch.num_rows))
            first += batch.num_rows


def _parquet_cells(file: Path, line: int, columns: Sequence[Any], row: int) -> list[Any] | InputError:
    try:
        return [column[row].as_py() for column in columns]
    except UnicodeDecodeError as error:
        return InputError(f"line {line} of {str(file)!r} is no text in UTF-8: {error.reason}")


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError("reading .parquet needs pyarrow: install thalweg[data]") from error
    try:
        with parquet.ParquetFile(file, buffer_size=PARQUET_BYTES) as table:
            yield table
    except OSError as error:
        raise _unreadable(file, error) from error
    except ArrowException as error:
        raise InputError(f"{str(file)!r} is no Parquet that can be read: {error}") from error


def is_empty(cell: Any) -> bool:
    """Nothing, white space, or the NaN that stands for nothing in a column of numbers."""
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def as_text(file: Path, line: int, column: str, cell: Any) -> str:
    """A cell that must be a text; where it stands is for the error."""
    if not isinstance(cell, str):
        raise InputError(f"line {line} of {str(file)!r} has {cell!r} under {column!r}; expected a text")
    if not is_unicode(cell):
        raise InputError(f"line {line} of {str(file)!r} has no valid Unicode under {column!r}: surrogates not allowed")
    return cell


def is_unicode(text: str) -> bool:
    """Whether no half of a character stands alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _label(file: Path, line: int, column: str, cell: Any) -> str:
    if isinstance(cell, bool | int):
        return str(cell)
    if not isinstance(cell, str):
        raise InputError(
            f"line {line} of {str(file)!r} has {cell!r} under {column!r}; expected a label: a text, a whole number, or "
            "true or false"
        )
    return as_text(file, line, column, cell)


def _no_column(file: Path, column: str, known: Iterable[str], where: str = "") -> InputError:
    there = ", ".join(map(repr, known)) or "none"
    return InputError(f"{where}{str(file)!r} has no column {column!r}; the columns are {there}")


def _unreadable(file: Path, error: OSError) -> InputError:
    return InputError(f"cannot read {str(file)!r}: {error.strerror or error}")
