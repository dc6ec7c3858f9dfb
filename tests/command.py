"""What the command `thalweg` did, for tests that run it in this process (the fixture `run`)."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """What was said on the error stream, as one line."""
        return " ".join(self.err.split())


Run = Callable[..., Done]
