"""Texts and labels that a user has in a file: one text per line, or columns of CSV, TSV, JSONL or Parquet."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from thalweg.errors import InputError, MissingExtraError

KINDS = (".csv", ".tsv", ".jsonl", ".parquet")
SHOWN = 5  # lines that an error names
LONGEST_CELL = 2**31 - 1  # the csv module would refuse long texts
Cells = Iterator[tuple[int, Sequence[Any]]]  # the line a row stands in, and its cells in the order asked for


def read_texts(file: Path, column: str = "text", limit: int | None = None) -> list[str]:
    """The texts of a file, empty ones left out: one per line, or in a column of .csv, .tsv, .jsonl or .parquet."""
    if file.suffix.lower() not in KINDS:
        lines = [line for line in _content(file).split("\n") if line.strip()]
        if not lines:
            raise InputError(f"{str(file)!r} is empty; expected a file with one text per line")
        return lines[:limit]
    texts: list[str] = []
    for line, (cell,) in read_rows(file, (column,)):
        if limit is not None and len(texts) == limit:
            break
        if not is_empty(cell):
            texts.append(as_text(file, line, column, cell))
    if not texts:
        raise InputError(f"{str(file)!r} is empty; expected texts under {column!r}")
    return texts


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
    first = _content(file).split("\n", 1)[0]
    if kind == ".jsonl":
        try:
            row = json.loads(first)
        except (ValueError, RecursionError):
            return []  # whoever reads the rows says what is wrong with the line
        return list(row) if isinstance(row, dict) else []
    return first.split("\t") if kind == ".tsv" else next(csv.reader([first]), [])


def read_rows(file: Path, columns: Sequence[str]) -> Cells:
    """The cells of some columns of a .csv, .tsv, .jsonl or .parquet, row by row."""
    readers = {".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}
    return readers[file.suffix.lower()](file, columns)


def _content(file: Path) -> str:
    """The whole file, with its lines ended by a line feed whatever ended them."""
    try:
        content = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _unreadable(file, error) from error
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        raise InputError(f"{str(file)!r} is no text in UTF-8; expected a file of texts")
    content = re.sub("\r\n?", "\n", content)
    if not content.strip():
        raise InputError(f"{str(file)!r} is empty; expected a file of texts")
    return content


def _csv(file: Path, columns: Sequence[str]) -> Cells:
    """Cells may be quoted, and quoted ones may hold commas and line breaks."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        reader = csv.reader(StringIO(_content(file), newline=""), strict=True)
        try:
            lines = [(reader.line_num, cells) for cells in reader]
        except csv.Error as error:
            raise InputError(f"line {reader.line_num} of {str(file)!r} is no CSV: {error}") from error
    finally:
        csv.field_size_limit(before)
    return _chosen(file, lines, columns)


def _tsv(file: Path, columns: Sequence[str]) -> Cells:
    """Cells end at a tab; a quotation mark is text like any other."""
    lines = _content(file).split("\n")
    return _chosen(file, [(number, line.split("\t") if line else []) for number, line in enumerate(lines, 1)], columns)


def _chosen(file: Path, lines: list[tuple[int, list[str]]], columns: Sequence[str]) -> Cells:
    """Of lines of cells, the first of which names them, those of some columns; empty lines at the end do not count."""
    while not lines[-1][1]:
        lines.pop()
    head = lines[0][1]
    twice = sorted({name for name in columns if head.count(name) > 1})
    if twice:
        raise InputError(f"{str(file)!r} has more than one column {twice[0]!r}; give each its own name")
    places = [_place(file, head, column) for column in columns]
    for number, cells in lines[1:]:
        if cells and len(cells) != len(head):
            raise InputError(
                f"line {number} of {str(file)!r} has {len(cells)} cells, but its first line names {len(head)} columns"
            )
        yield number, [cells[place] if cells else None for place in places]


def _place(file: Path, head: Sequence[str], column: str) -> int:
    if column not in head:
        raise _no_column(file, column, head)
    return head.index(column)


def _jsonl(file: Path, columns: Sequence[str]) -> Cells:
    for number, line in enumerate(_content(file).rstrip().split("\n"), 1):
        if not line.strip():
            yield number, [None for _ in columns]
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"line {number} of {str(file)!r} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"line {number} of {str(file)!r} is no JSON object; expected one with {columns[0]!r}")
        for column in columns:
            if column not in row:
                raise _no_column(file, column, row, f"line {number} of ")
        yield number, [row[column] for column in columns]


def _parquet(file: Path, columns: Sequence[str]) -> Cells:
    with _opened(file) as table:
        for column in columns:
            if column not in table.schema_arrow.names:
                raise _no_column(file, column, table.schema_arrow.names)
        first = 1
        for batch in table.iter_batches(columns=list(columns)):
            found = [batch.column(column).to_pylist() for column in columns]
            yield from enumerate(zip(*found, strict=True), first)
            first += batch.num_rows


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError("reading .parquet needs pyarrow: install thalweg[data]") from error
    try:
        with parquet.ParquetFile(file) as table:
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
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"line {line} of {str(file)!r} has no valid Unicode under {column!r}: {error.reason}"
        ) from error
    return cell


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
