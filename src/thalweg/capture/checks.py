"""The checks behind every result: parity, sum of parts and chain of the blocks it used."""

from collections.abc import Iterable

from thalweg.capture.record import Block
from thalweg.receipt import Check


def block_checks(blocks: Iterable[Block], parity: tuple[float, ...] = ()) -> dict[str, Check]:
    """The checks of these blocks; `parity` overrides the blocks' own where other rows were read."""
    blocks = tuple(blocks)
    checks = {
        "parity": Check(
            parity or tuple(block.parity for block in blocks), max(block.parity_tolerance for block in blocks)
        ),
        "sum_of_parts": Check(tuple(block.sum_error for block in blocks), max(block.tolerance for block in blocks)),
    }
    chain = tuple(block.chain_error for block in blocks if block.chain_error is not None)
    if chain:
        checks["chain"] = Check(chain, max(block.chain_tolerance for block in blocks))
    return checks
