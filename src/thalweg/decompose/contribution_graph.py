"""Contributions as a layered graph: one map per block over all tokens, the residual inside."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from thalweg.axes import Step, TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.decompose.contributions import shares
from thalweg.decompose.layout import over_all_tokens
from thalweg.decompose.parts import Include, Parts, decompose
from thalweg.numerics import worst


@dataclass(frozen=True, eq=False)
class ContributionGraph:
    """The maps of all blocks, lowest first, with what was checked on the way."""

    steps: list[Step]
    parity: tuple[float, ...]
    errors: tuple[float, ...]
    empty_rows: int

    @property
    def figures(self) -> dict[str, float]:
        found = {"parts error": max(self.errors)}
        if self.empty_rows:
            found["rows without any contribution"] = float(self.empty_rows)
        return found


def contribution_graph(
    capture: Capture, blocks: tuple[Block, ...], measure: Callable[[Parts], TokenMap], include: Include = "block"
) -> ContributionGraph:
    """Measure the parts of each block, one block at a time, and lay the shares out over all tokens."""
    steps, parity, errors, empty = [], [], [], 0
    for block in blocks:
        parts = decompose(block, include)
        step, none = step_of(capture, block, measure(parts))
        steps.append(step)
        errors.append(parts.error)
        parity.append(worst(parts.parities))
        empty += none
    return ContributionGraph(steps, tuple(parity), tuple(errors), empty)


def step_of(capture: Capture, block: Block, contributions: TokenMap) -> tuple[Step, int]:
    """A block's contributions as a map of all tokens, and how many of its rows had none.

    A row in which nothing contributes stays with its own token. A last column beyond the keys is what the
    residual brings to its own row.
    """
    keys = block.keys.stop - block.keys.start
    rows = torch.arange(len(contributions), device=contributions.device)
    own = rows if contributions.shape[1] == keys else torch.full_like(rows, keys)
    shared, empty = shares(contributions, own)
    return over_all_tokens(capture, block, shared[:, :keys], shared[:, keys] if shared.shape[1] > keys else 0.0), empty
