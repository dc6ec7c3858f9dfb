"""Blocks whose decomposition can be read off by eye."""

import torch
from torch import Tensor

from thalweg.capture.record import Attention, Block


def handmade(weights: Tensor, values: Tensor, states: Tensor) -> Block:
    """A pre-norm block of one head with an identity as projection: y_i = x_i + Σ_j a_ij v_j."""
    mixed = weights @ values
    attention = Attention(values[None], mixed[:, None], kept=weights[None])
    everything = slice(0, len(states))
    return Block(
        name="by hand", role="self", attention=attention, projection=torch.eye(states.shape[1])[None],
        bias=None, branch_norm=None, scale=None, multiplier=1.0, input=states, summed=states + mixed,
        output=states + mixed, norm=None, parallel=False, queries=everything, keys=everything, parity=0.0,
        sum_error=0.0, tolerance=1e-4,
    )  # fmt: skip
