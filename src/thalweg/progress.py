"""A progress bar on terminals, for work that takes more than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

DELAY_SECONDS = 1.0  # before the bar appears
_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def hidden_progress() -> Iterator[None]:
    """Show no progress bars."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function `report(done, total)`; the bar appears on stderr after a second.

    Only the outermost of nested bars is shown.
    """
    start, inside = time.monotonic(), _inside.get()
    token = _inside.set(True)
    bar = task = None

    def report(done: int, total: int) -> None:
        nonlocal bar, task
        if bar is None and not inside and sys.stderr.isatty() and time.monotonic() - start > DELAY_SECONDS:
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(label, total=total)
        if bar is not None and task is not None:
            bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        _inside.reset(token)
        if bar is not None:
            bar.stop()
