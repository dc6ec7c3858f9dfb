"""How well a layer's output determines the attention of all its heads at once.

The verdict on a head assumes that the head's own output is known. Outside the layer only the sum of all head outputs
is visible. The rows of all heads at one position can change together by (δ_1, …, δ_H) with Σ_h δ_h T_h = 0, each δ_h
summing to zero: a space of dimension H·n − H − rank of the stacked differences of all T_h. Heads that are concatenated
before an invertible W_O write into different directions, so this adds nothing to the ambiguity of single heads. Heads
that are added write into the same directions, and their outputs cannot be separated.
"""

import torch

from thalweg.capture.record import Block
from thalweg.decompose.value_space import ValueSpace, singular_values
from thalweg.identifiability.result import Layer
from thalweg.numerics import double, working


def certify_layer(number: int, block: Block, space: ValueSpace) -> Layer:
    """Count the free dimensions at the position with the most visible keys, head by head and jointly.

    Each head's T is divided by its largest singular value, so that heads of any size are judged by the same cut.
    """
    row = int(space.supports.sum(-1).argmax())
    values, projection = double(block.attention.values()), double(block.projection)
    written = values @ projection  # T of each head, [head key width]
    size = torch.linalg.matrix_norm(written) / torch.linalg.matrix_norm(space.matrix).clamp_min(1e-30)
    written = written[:, space.supports[row]] / torch.where(size > 0, size, 1.0)[:, None, None]
    if not space.sinks:
        written = written - written.mean(1, keepdim=True)
    stacked = written.flatten(0, 1)
    rank = int((singular_values(stacked, working(block.attention.value.dtype)) > space.cut).sum())
    heads, apart = len(written), int(space.ambiguity[:, row].sum())
    return Layer(
        layer=number,
        heads=heads,
        heads_added=block.heads_added,
        narrow=heads * projection.shape[1] > projection.shape[2],
        ambiguity_apart=apart,
        ambiguity_together=max(apart, len(stacked) - rank - (0 if space.sinks else heads)),
    )
