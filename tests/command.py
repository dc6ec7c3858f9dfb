"""The outcome of the command `thalweg`, for tests that run it in this process (the fixture `run`)."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The error stream as one line."""
        return " ".join(self.err.split())


Run = Callable[..., Done]
