"""Attention weights as maps over all tokens of a capture, checked against the model's own kernel."""

from dataclasses import dataclass

import torch

from thalweg.axes import TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.errors import InputError, ProofError


@dataclass(frozen=True, eq=False)
class Checked:
    """A block's map over its own queries and keys, and the worst parity of its rows."""

    map: TokenMap
    parity: float


def head_weights(block: Block, head: int | None = None) -> Checked:
    """The mean of a block's heads, or one of them: [query key], computed in blocks of rows."""
    heads = block.attention.heads
    if head is not None and not 0 <= head < heads:
        raise InputError(
            f"head {head} was asked for, but {block.name!r} has the heads 0 to {heads - 1}"
        )
    rows, worst = [], 0.0
    for _, weights, parity in block.attention.blocks():
        worst = max(worst, parity)
        rows.append(weights.mean(0) if head is None else weights[head])
    if worst > block.tolerance:
        raise ProofError(
            f"weights times values of {block.name!r} differ from the model's kernel by {worst:.1e} of "
            f"their size where {block.tolerance:.1e} is allowed"
        )
    return Checked(torch.cat(rows), worst)


def over_all_tokens(capture: Capture, block: Block, weights: TokenMap, own: float) -> TokenMap:
    """The block's step as a map of all tokens: own · I + (1 − own) · weights at its queries.

    Tokens that the block does not touch (the other sequence of an encoder-decoder) keep what they have.
    """
    count = len(capture.tokens)
    step = torch.eye(count, dtype=weights.dtype, device=weights.device)
    step[block.queries] *= own
    step[block.queries, block.keys] += (1 - own) * weights
    return step
