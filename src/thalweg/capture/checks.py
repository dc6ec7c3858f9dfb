"""The checks behind every result: parity and sum of parts of the blocks it used."""

from collections.abc import Iterable

from thalweg.capture.record import Block
from thalweg.receipt import Check


def block_checks(blocks: Iterable[Block], parity: tuple[float, ...] = ()) -> dict[str, Check]:
    """Parity and sum of parts of these blocks; `parity` overrides the blocks' own where other rows were read."""
    blocks = tuple(blocks)
    return {
        "parity": Check(
            parity or tuple(block.parity for block in blocks), max(block.parity_tolerance for block in blocks)
        ),
        "sum_of_parts": Check(tuple(block.sum_error for block in blocks), max(block.tolerance for block in blocks)),
    }
