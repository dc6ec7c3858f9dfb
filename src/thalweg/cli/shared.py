"""What the commands share: their options, and how they load, read and answer."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import typer
from rich.console import Console

import thalweg
from thalweg.errors import InputError

Text = Annotated[str, typer.Argument(help="The text to explain.")]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A folder or a hub name; the model that ships if left out."),
]
Task = Annotated[str | None, typer.Option(help="The model's task, where its checkpoint does not say.")]
Goal = Annotated[str | None, typer.Option(help='A position, a token, "prediction" or "all".', show_default=False)]
Device = Annotated[str | None, typer.Option(help="Where the model runs, as in cuda:0.")]
Dtype = Annotated[str | None, typer.Option(help="The precision it runs in, as in bfloat16.")]
TargetText = Annotated[str | None, typer.Option(help="What an encoder-decoder's decoder reads.")]
Words = Annotated[bool, typer.Option("--words", help="Merge tokens into words.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON; - for the screen.")]
File = Annotated[
    Path | None, typer.Option("--file", "-f", help="Texts, one per line; or .jsonl or .tsv with --text-column.")
]
TextColumn = Annotated[str, typer.Option(help="Where a .jsonl or .tsv has its texts.")]
Limit = Annotated[int | None, typer.Option(help="Read that many texts at most.", min=1)]


@runtime_checkable
class Result(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def load_subject(model: str | None, task: str | None, device: str | None, dtype: str | None) -> "thalweg.Subject":
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return thalweg.load(model, task=task, device=device, dtype=dtype)  # pyright: ignore[reportArgumentType]


def names(listed: str) -> list[str]:
    """What stands between commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def number_or_text(given: str | None) -> Any:
    """A position or a layer where it is a number."""
    if given is None:
        return None
    try:
        return int(given)
    except ValueError:
        return given


def read_texts(file: Path, column: str = "text", limit: int | None = None) -> list[str]:
    """The texts of a file, empty lines left out: one per line, or in a column of .jsonl or .tsv."""
    try:
        content = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        raise InputError(f"{str(file)!r} is no text in UTF-8; expected a file with one text per line")
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{str(file)!r} is empty; expected a file with one text per line")
    if file.suffix == ".jsonl":
        return list(_jsonl(file, lines[:limit], column))
    if file.suffix == ".tsv":
        rows = csv.DictReader(lines[: None if limit is None else limit + 1], delimiter="\t", quoting=csv.QUOTE_NONE)
        if column not in (rows.fieldnames or ()):
            raise _no_column(file, column, rows.fieldnames or ())
        return [row[column] for row in rows if row[column]]
    return lines[:limit]


def _jsonl(file: Path, lines: list[str], column: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"line {number} of {str(file)!r} is no JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get(column), str):
            raise _no_column(file, column, row if isinstance(row, dict) else ())
        yield row[column]


def _no_column(file: Path, column: str, known: Any) -> InputError:
    return InputError(
        f"{str(file)!r} has no texts under {column!r}; choose --text-column from {', '.join(known) or '–'}"
    )


def answer(result: Result, path: Path | None) -> None:
    """Show the result, or write it as JSON where that is asked for."""
    if path is None:
        from thalweg.views import render

        Console().print(render(result))
        return
    text = json.dumps(result.to_dict(), ensure_ascii=False)
    if str(path) == "-":
        print(text)
    else:
        written(lambda: path.write_text(text, encoding="utf-8"), path)


def written(write: Callable[[], Any], path: Path) -> None:
    """Write, or say in a sentence why that cannot be done."""
    try:
        write()
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
