"""Texts and labels from a user's file: one text per line, or columns of a .csv, .tsv, .jsonl or .parquet file.

Files are streamed. `stream_texts` yields the error of a bad line in its place and continues; all other functions raise
it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from thalweg.errors import InputError
from thalweg.files.formats import READERS, table_rows, valid
from thalweg.files.formats import read_columns as read_columns
from thalweg.files.lines import Lines, is_unicode, read_lines

SHOWN_LINES = 5  # line numbers in an error


def read_texts(file: Path, column: str = "text", limit: int | None = None) -> list[str]:
    """Read the non-empty texts of a file: one per line, or in a column of .csv, .tsv, .jsonl or .parquet."""
    texts = list(islice((valid(text) for _, text in stream_texts(file, column)), limit))
    if not texts:
        raise InputError(f"{file} is empty; expected texts in the column {column!r}")
    return texts


def read_pairs(file: Path, column: str, second_column: str, limit: int | None = None) -> list[tuple[str, str]]:
    """Read pairs of texts from two columns of a .csv, .tsv, .jsonl or .parquet file; empty rows are skipped."""
    if file.suffix.lower() not in READERS:
        raise InputError(f"{file} is not a table, so it has no pairs; expected one of {', '.join(READERS)}")
    pairs = [
        (as_text(file, line, column, first), as_text(file, line, second_column, second))
        for line, (first, second) in read_rows(file, (column, second_column))
        if not (is_empty(first) and is_empty(second))
    ][:limit]
    if not pairs:
        raise InputError(f"{file} is empty; expected pairs of texts in {column!r} and {second_column!r}")
    return pairs


def stream_texts(file: Path, column: str = "text") -> Lines:
    """Yield the non-empty texts with their line numbers; an unreadable text is yielded as its error.

    An error that concerns the whole file (it does not exist, has no such column, is empty) is raised.
    """
    return ((line, text) for line, _, text in stream_identified(file, column))


def stream_identified(
    file: Path, column: str = "text", id_column: str | None = None
) -> Iterator[tuple[int, str | None, str | InputError]]:
    """As `stream_texts`, with the cell of an `id_column` as text between line number and text; None if it is empty."""
    if file.suffix.lower() not in READERS:
        if id_column is not None:
            raise InputError(f"{file} is not a table, so it has no column {id_column!r} of ids; omit it")
        lines = ((line, None, text) for line, text in read_lines(file))
        yield from (entry for entry in lines if isinstance(entry[2], InputError) or entry[2].strip())
        return
    for line, cells in table_rows(file, (column,) if id_column is None else (column, id_column)):
        if isinstance(cells, InputError):
            yield line, None, cells
        elif not is_empty(cells[0]):
            name = None
            try:
                if id_column is not None and not is_empty(cells[1]):
                    name = as_text(file, line, id_column, str(cells[1]))
                yield line, name, as_text(file, line, column, cells[0])
            except InputError as error:
                yield line, name, error


def read_labelled(file: Path, text_column: str = "text", label_column: str = "label") -> tuple[list[str], list[str]]:
    """Read texts and labels from .csv, .tsv, .jsonl or .parquet; a row that lacks either is an error.

    Labels may be text, integers or booleans; they become text.
    """
    if file.suffix.lower() not in READERS:
        raise InputError(f"{file} is not a table; expected one of {', '.join(READERS)}")
    if text_column == label_column:
        raise InputError(f"texts and labels must be different columns, got {text_column!r} for both")
    rows = list(read_rows(file, (text_column, label_column)))
    if not rows:
        raise InputError(f"{file} has no rows; expected texts with labels")
    for place, column in enumerate((text_column, label_column)):
        empty = [line for line, cells in rows if is_empty(cells[place])]
        if empty:
            listed = ", ".join(map(str, empty[:SHOWN_LINES])) + (", …" if len(empty) > SHOWN_LINES else "")
            raise InputError(
                f"{len(empty)} of {len(rows)} rows of {file} have an empty {column!r} (lines {listed}); remove or "
                "complete them"
            )
    texts = [as_text(file, line, text_column, cells[0]) for line, cells in rows]
    return texts, [_label(file, line, label_column, cells[1]) for line, cells in rows]


def read_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the line numbers and cells of some columns of a .csv, .tsv, .jsonl or .parquet file."""
    return ((line, valid(cells)) for line, cells in table_rows(file, columns))


def is_empty(cell: Any) -> bool:
    """Whether a cell is missing: null, white space, or the NaN of a numeric column."""
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def as_text(file: Path, line: int, column: str, cell: Any) -> str:
    """Return the cell if it is a valid text; otherwise raise with its place."""
    if not isinstance(cell, str):
        raise InputError(f"line {line} of {file}: {column!r} must be a text, got {cell!r}")
    if not is_unicode(cell):
        raise InputError(f"line {line} of {file}: {column!r} is not valid Unicode (it has a lone surrogate)")
    return cell


def _label(file: Path, line: int, column: str, cell: Any) -> str:
    if isinstance(cell, bool | int):
        return str(cell)
    if not isinstance(cell, str):
        raise InputError(f"line {line} of {file}: {column!r} must be a text, an integer or a boolean, got {cell!r}")
    return as_text(file, line, column, cell)
