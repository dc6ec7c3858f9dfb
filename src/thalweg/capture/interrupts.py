"""Hold back Ctrl-C while a model is being prepared or restored, so that nothing of ours can be left in it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Signal handlers that act at once while they are open; otherwise signals wait until they are released.

    Once a signal has ended the pass, later ones wait, so that they cannot disturb the cleaning up.
    """

    def __init__(self) -> None:
        self.open = self.released = False
        self.waiting: dict[int, FrameType | None] = {}
        self.replaced: dict[int, Any] = {}

    def hold(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
            return
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self.replaced[number] = handler
                signal.signal(number, self._receive)

    def release(self) -> None:
        self.released = True  # from here on `_receive` acts like the handler it replaced
        for number, handler in self.replaced.items():
            signal.signal(number, handler)
        for number, frame in self.waiting.items():
            self.replaced[number](number, frame)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let signals act inside this block."""
        self.open = True
        try:
            for number in list(self.waiting):
                self._receive(number, self.waiting.pop(number))
            yield
        finally:
            self.open = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not (self.open or self.released):
            self.waiting[number] = frame
            return
        self.open = False
        self.replaced[number](number, frame)
        self.open = True  # the handler returned, so the pass goes on


@contextmanager
def held_interrupts() -> Iterator[Interrupts]:
    """Hold signals back until the end of the block, except inside `allowed()`."""
    interrupts = Interrupts()
    try:
        interrupts.hold()
        yield interrupts
    finally:
        interrupts.release()
