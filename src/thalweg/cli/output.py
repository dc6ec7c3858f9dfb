"""Loading models and showing, drawing and writing results, the same for every command."""

import codecs
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich.console import Console
from rich.text import Text

import thalweg
from thalweg.drawing.terminal import Shown
from thalweg.errors import InputError
from thalweg.files.atomic import draft_of
from thalweg.files.run_folder import HEADER, LOCK
from thalweg.printable import visible

SUFFIXES = {
    "json": (".json",),
    "html": (".html", ".htm"),
    "png": (".png",),
    "svg": (".svg",),
    "pdf": (".pdf",),
    "csv": (".csv",),
}
FIGURES = ("png", "svg", "pdf")
STDOUT = "-"
PLAIN = str.maketrans("█●◐○×–−─┃↑↓→…·␣", "#@%ox---|^v>.._")  # for terminals that show ASCII only
T = TypeVar("T")
_debug = _quiet = False


def load_subject(
    model: str | None, task: str | None, device: str | None, dtype: str | None, truncate: bool = False
) -> "thalweg.Subject":
    silence_transformers()
    return thalweg.load(model, task=task, device=device, dtype=dtype, truncate=truncate)  # pyright: ignore[reportArgumentType]


def silence_transformers() -> None:
    """Turn off transformers' progress bars and warnings."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def check_outputs(*inputs: Path | None, run_folder: Path | None = None, **paths: Path | None) -> dict[str, Path]:
    """The files that a command writes, by format; raises if one of them could not be written later.

    `out` is a file of another kind. Files must differ from each other and from the `inputs`, and lie outside of the
    `run_folder`.
    """
    outputs = {kind: path for kind, path in paths.items() if path is not None}
    taken = {_resolved(path): f"the input {path}" for path in inputs if path is not None and str(path) != STDOUT}
    for kind, path in outputs.items():
        place = _resolved(path)
        if place in taken and not Path(place).is_char_device():
            raise InputError(f"--{kind} {path} would overwrite {taken[place]}; choose another name")
        _check_suffix(kind, path)
        check_writable(path, run_folder)
        taken[place] = f"--{kind}"
    needed = next((kind for kind in FIGURES if kind in outputs), None)
    if needed is not None and find_spec("matplotlib") is None:
        raise InputError(f"--{needed} needs matplotlib: install thalweg[plots]")
    return outputs


def _resolved(path: Path) -> str:
    return STDOUT if str(path) == STDOUT else str(path.resolve())


def _check_suffix(kind: str, path: Path) -> None:
    """Raise for a name that promises another format."""
    suffix = path.suffix.lower()
    other = next((name for name, suffixes in SUFFIXES.items() if suffix in suffixes and name != kind), None)
    if other is not None:
        wanted = SUFFIXES[kind][0] if kind in SUFFIXES else ".safetensors"
        raise InputError(f"--{kind} {path} has the suffix of another format: use --{other}, or a name with {wanted}")


def check_writable(path: Path, run_folder: Path | None = None) -> None:
    """Raise if a result could not be written there later, or could overwrite a file of a run."""
    if str(path) == STDOUT:
        return
    inside = run_folder is not None and path.resolve().is_relative_to(run_folder.resolve())
    if inside or ((path.parent / HEADER).exists() and (path.parent / LOCK).exists()):
        raise InputError(f"cannot write {path}: it is inside a run folder; choose a path outside")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {str(path.parent)!r} does not exist")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder, expected a file name")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission to write to {str(path.parent)!r}")


def show(result: Any, outputs: Mapping[str, Path]) -> None:
    """Write the result to its files, and print it unless one of them is stdout."""
    for kind, path in outputs.items():
        if kind == "json":
            _write_text(path, _as_json(result, on_stdout=str(path) == STDOUT) + "\n")
        elif kind == "html":
            _write_text(path, result.to_html())
        elif kind in FIGURES:
            _write_figure(path, kind, result.plot())
        else:
            write_checked(lambda path=path: result.save(path), path)
        if str(path) != STDOUT:
            print_note(f"wrote {path}")
    if not _quiet and STDOUT not in map(str, outputs.values()):
        print_out(result)


def _as_json(result: Any, on_stdout: bool) -> str:
    text = json.dumps(result.to_dict(), ensure_ascii=on_stdout and not _is_utf8(sys.stdout))
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text) if on_stdout else text


def _write_text(path: Path, text: str) -> None:
    if str(path) == STDOUT:
        sys.stdout.write(text)
    else:
        _write(path, lambda draft: Path(draft).write_text(text, encoding="utf-8"))


def print_out(*contents: Any) -> None:
    """Print results, tables and plain lines on stdout, without control characters of their own."""
    Console().print(*(Shown(Text(entry) if isinstance(entry, str) else entry) for entry in contents), sep="\n")


def _write_figure(path: Path, kind: str, figure: Any) -> None:
    if str(path) == STDOUT:
        figure.savefig(sys.stdout.buffer, format=kind)
    else:
        _write(path, lambda draft: figure.savefig(draft, format=kind))


def _write(path: Path, write: Callable[[str], Any]) -> None:
    """Write a file atomically; anything else, such as /dev/stdout, is written to directly."""

    def save() -> None:
        if path.exists() and not path.is_file():
            write(str(path))
            return
        with draft_of(path) as draft:
            write(draft)

    write_checked(save, path)


def write_checked(write: Callable[[], T], path: Path) -> T:
    """Write, and turn an operating system error into one of ours."""
    try:
        return write()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def set_flags(debug: bool, quiet: bool) -> None:
    """Set whether errors come with a traceback, and whether only errors and requested files are written."""
    global _debug, _quiet
    _debug, _quiet = debug, quiet


def is_quiet() -> bool:
    return _quiet


def print_error(kind: str, message: str) -> None:
    """Print one readable line on stderr; with --debug the traceback of the current exception first."""
    console = Console(stderr=True)
    if _debug:
        console.print(Shown(Text(traceback.format_exc())), soft_wrap=True, end="")
    console.print(Text.assemble((kind, "red"), " ", visible(message)), soft_wrap=True)


def print_note(message: str) -> None:
    """Print one line on stderr, unless --quiet."""
    if not _quiet:
        Console(stderr=True).print(Text(visible(message)), soft_wrap=True)


def allow_any_terminal() -> None:
    """Print what a terminal cannot show as ASCII characters or escapes, instead of failing."""
    codecs.register_error("thalweg", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not _is_utf8(stream):
            stream.reconfigure(errors="thalweg")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end].translate(PLAIN)
    return part.encode("ascii", "backslashreplace").decode(), error.end


def _is_utf8(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"
