"""Loading models and showing, drawing and writing results, the same for every command."""

import json
import os
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console

import thalweg
from thalweg.errors import InputError
from thalweg.files.atomic import draft_of

_debug = False


@runtime_checkable
class Result(Protocol):
    """Anything that prints itself and converts to plain data."""

    def to_dict(self) -> dict[str, Any]: ...


def load_subject(model: str | None, task: str | None, device: str | None, dtype: str | None) -> "thalweg.Subject":
    silence_transformers()
    return thalweg.load(model, task=task, device=device, dtype=dtype)  # pyright: ignore[reportArgumentType]


def silence_transformers() -> None:
    """Turn off transformers' progress bars and warnings."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def check_writable(*paths: Path | None) -> None:
    """Raise if a result could not be written there later."""
    for path in paths:
        if path is None or str(path) == "-":
            continue
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: the folder {str(path.parent)!r} does not exist")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder, expected a file name")
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"cannot write {path}: no permission to write to {str(path.parent)!r}")


def check_drawing(html: Path | None, png: Path | None) -> None:
    """Raise if a page or figure could not be written there later."""
    check_writable(html, png)
    if png is not None and find_spec("matplotlib") is None:
        raise InputError("--png needs matplotlib: install thalweg[plots]")


def show(result: Result, json_path: Path | None, html: Path | None = None, png: Path | None = None) -> None:
    """Print the result, or write it as JSON; write the page and the figure as well."""
    draw(result, html, png)
    if json_path is None:
        Console().print(result)
        return
    text = json.dumps(result.to_dict(), ensure_ascii=False)
    if str(json_path) == "-":
        print(text)
    else:
        write_text(json_path, text)


def draw(result: Any, html: Path | None, png: Path | None) -> None:
    """Write the page and the figure, if there is a path for them."""
    if html is not None:
        write_text(html, result.to_html())
    if png is not None:
        figure = result.plot()
        _write(png, lambda draft: figure.savefig(draft, format="png"))


def write_text(path: Path, text: str) -> None:
    _write(path, lambda draft: Path(draft).write_text(text, encoding="utf-8"))


def _write(path: Path, write: Callable[[str], Any]) -> None:
    """Write a file atomically; anything else, such as /dev/stdout, is written to directly."""

    def save() -> None:
        if path.exists() and not path.is_file():
            write(str(path))
            return
        with draft_of(path) as draft:
            write(draft)

    write_checked(save, path)


def write_checked(write: Callable[[], Any], path: Path) -> None:
    """Write, and turn an operating system error into one of ours."""
    try:
        write()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def set_debug(wanted: bool) -> None:
    global _debug
    _debug = wanted


def print_error(kind: str, message: str) -> None:
    """Print one readable line on stderr; with --debug the traceback of the current exception first."""
    from rich.markup import escape

    from thalweg.drawing.escaping import printable

    if _debug:
        traceback.print_exc()
    Console(stderr=True).print(f"[red]{kind}[/red] {escape(printable(message))}", highlight=False, soft_wrap=True)
