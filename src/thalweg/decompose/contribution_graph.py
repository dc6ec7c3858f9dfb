"""Contributions as a layered graph: one map per block over all tokens, residual included."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from thalweg.axes import Step, TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.decompose.contributions import shares
from thalweg.decompose.layout import over_all_tokens
from thalweg.decompose.parts import Include, Parts, decompose


@dataclass(frozen=True, eq=False)
class ContributionGraph:
    """The maps of all blocks, lowest first, with the checks made while computing them."""

    steps: tuple[Step, ...]
    parity: tuple[float, ...]
    errors: tuple[float, ...]
    empty_rows: int

    @property
    def figures(self) -> dict[str, float]:
        """Figures for the receipt."""
        empty = {"rows without any contribution": float(self.empty_rows)} if self.empty_rows else {}
        return {"parts error": max(self.errors), **empty}


def contribution_graph(
    capture: Capture,
    blocks: tuple[Block, ...],
    measure: Callable[[Parts], tuple[TokenMap, float]],
    include: Include = "block",
) -> ContributionGraph:
    """Measure the parts of each block, one block at a time, and lay their shares out over all tokens."""
    steps, parities, errors, empty_rows = [], [], [], 0
    for block in blocks:
        parts = decompose(block, include)
        contributions, parity = measure(parts)
        step, empty = step_of(capture, block, contributions)
        steps.append(step)
        errors.append(parts.error)
        parities.append(parity)
        empty_rows += empty
    return ContributionGraph(tuple(steps), tuple(parities), tuple(errors), empty_rows)


def step_of(capture: Capture, block: Block, contributions: TokenMap) -> tuple[Step, int]:
    """A block's contributions as shares over all tokens, and the number of its rows without any contribution.

    A row without contributions stays with its own token. A last column beyond the keys is what the residual adds to
    its own row.
    """
    keys = block.keys.stop - block.keys.start
    rows = torch.arange(len(contributions), device=contributions.device)
    own = rows if contributions.shape[1] == keys else torch.full_like(rows, keys)
    shared, empty = shares(contributions, own)
    return over_all_tokens(capture, block, shared[:, :keys], shared[:, keys] if shared.shape[1] > keys else 0.0), empty
