"""What the commands share: their options, and how they load, read and answer."""

import json
import os
from collections.abc import Callable
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
Html = Annotated[Path | None, typer.Option("--html", help="Write a page that stands alone.")]
Png = Annotated[Path | None, typer.Option("--png", help="Write a picture (extra `plots`).")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result as JSON; - for the screen.")]
File = Annotated[
    Path | None, typer.Option("--file", "-f", help="Texts, one per line; or .csv, .tsv, .jsonl or .parquet.")
]
TextColumn = Annotated[str, typer.Option(help="Where a table has its texts.")]
Limit = Annotated[int | None, typer.Option(help="Read that many texts at most.", min=1)]


@runtime_checkable
class Result(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def load_subject(model: str | None, task: str | None, device: str | None, dtype: str | None) -> "thalweg.Subject":
    quiet()
    return thalweg.load(model, task=task, device=device, dtype=dtype)  # pyright: ignore[reportArgumentType]


def quiet() -> None:
    """Only Thalweg speaks: transformers' own bars and warnings are off."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


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


def check_writable(path: Path | None) -> None:
    """Say before long work that its result could not be written."""
    if path is None or str(path) == "-":
        return
    if not path.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    if path.is_dir():
        raise InputError(f"cannot write {str(path)!r}: that is a folder; give the name of a file")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {str(path)!r}: the folder {str(path.parent)!r} may not be written to")


def answer(result: Result, path: Path | None, html: Path | None = None, png: Path | None = None) -> None:
    """Show the result, or write it as JSON where that is asked for; a page and a picture too."""
    draw(result, html, png)
    if path is None:
        from thalweg.views import render

        Console().print(render(result))
        return
    text = json.dumps(result.to_dict(), ensure_ascii=False)
    if str(path) == "-":
        print(text)
    else:
        write_text(path, text)


def draw(result: Any, html: Path | None, png: Path | None) -> None:
    """Write the page and the picture that were asked for."""
    if html is not None:
        write_text(html, result.to_html())
    if png is not None:
        figure = result.plot()
        _write(png, lambda draft: figure.savefig(draft, format="png"))


def write_text(path: Path, text: str) -> None:
    _write(path, lambda draft: Path(draft).write_text(text, encoding="utf-8"))


def _write(path: Path, write: Callable[[str], Any]) -> None:
    """A file, whole or not at all; something that is no plain file, such as /dev/stdout, is written as it is."""
    from thalweg.files import draft_of

    def save() -> None:
        if path.exists() and not path.is_file():
            write(str(path))
            return
        with draft_of(path) as draft:
            write(draft)

    written(save, path)


def written(write: Callable[[], Any], path: Path) -> None:
    """Write, or say in a sentence why that cannot be done."""
    try:
        write()
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
