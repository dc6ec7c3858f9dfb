"""Blocks and captures whose decomposition can be read off by eye."""

from typing import Any

import torch
from torch import Tensor

from thalweg.capture.record import Attention, Block, Capture
from thalweg.tokens import anonymous


def handmade(
    weights: Tensor, values: Tensor, states: Tensor, queries: slice | None = None, keys: slice | None = None
) -> Block:
    """A pre-norm block of one head with an identity as projection: y_i = x_i + Σ_j a_ij v_j."""
    mixed = weights @ values
    attention = Attention(values[None], mixed[:, None], kept=weights[None])
    everything = slice(0, len(states))
    return Block(
        name="by hand", role="self", attention=attention, projection=torch.eye(states.shape[1])[None],
        bias=None, branch_norm=None, scale=None, multiplier=1.0, input=states, summed=states + mixed,
        output=states + mixed, norm=None, parallel=False, queries=queries or everything, keys=keys or everything,
        parity=0.0, sum_error=0.0, tolerance=1e-4,
    )  # fmt: skip


def capture_of(count: int, *blocks: Block) -> Capture:
    """A capture of `count` nameless tokens that cannot be replayed."""

    def replay(*_: Any, **__: Any) -> Any:
        raise AssertionError("a capture made by hand has no model")

    return Capture(anonymous(count), blocks, None, (), (), (), {}, replay)
