"""What is to be explained."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """The positions asked for, and the output (class or token id) that the model chose there."""

    positions: tuple[int, ...]
    output: int | None = None
