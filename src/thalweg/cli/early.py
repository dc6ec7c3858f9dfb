"""Checks before torch is imported, which takes seconds: on sketches of our own modules (`thalweg/sketch.py`)."""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from thalweg import methods
from thalweg.errors import ThalwegError
from thalweg.sketch import Sketch, SketchError

T = TypeVar("T")


@cache
def _sketch() -> Sketch:
    """Our own modules, and those of packages that declare methods."""
    return Sketch(entry.module.partition(".")[0] for entry in entry_points(group=methods.__name__))


def early(module: str, action: Callable[[Any], T]) -> T:
    """Call a function with a module: with its sketch unless torch is there already, or is needed after all.

    The action may read declarations and call functions that work with plain values.
    """
    if "torch" not in sys.modules:
        try:
            return action(_sketch().load(module))
        except ThalwegError:
            raise
        except (Exception, SketchError):  # noqa: BLE001 - whatever a sketch cannot do, the module can
            pass
    return action(import_module(module))


def check_folder(path: Path | None, module: str, kind: str) -> None:
    """Raise for a folder that holds something else than a run of the kind that a module declares."""
    if path is not None:
        run_kind = early(module, lambda declaring: getattr(declaring, kind))
        early("thalweg.files.run_folder", lambda run_folder: run_folder.check_foreign(path, run_kind))


def check_text(*texts: str) -> None:
    """Raise for a text, or a pair, that no tokenizer can read."""
    early("thalweg.models.tokenize", lambda tokenize: tokenize.check_texts(texts))


def check_model(model: str | None, task: str | None) -> None:
    """Raise for a folder or a task that does not exist."""

    def check(load: Any) -> None:
        load.check_task(task)
        load.find_source(model or load.DEFAULT_NAME)

    early("thalweg.models.load", check)
