"""What is to be explained."""

from dataclasses import dataclass
from typing import Literal

Start = Literal["embeddings", "layer"]  # where maps of hidden states begin: at the bottom, or one layer below


@dataclass(frozen=True)
class Target:
    """The positions asked for, and the output (class or token id) that the model chose there."""

    positions: tuple[int, ...]
    output: int | None = None
