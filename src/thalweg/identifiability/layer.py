"""What a layer's output says about all its heads at once.

A head's verdict takes its own output as known. From outside only the layer's output is seen, the sum of what the heads
write. The rows that all heads have at one position could change together by (δ_1, …, δ_H) with Σ_h δ_h T_h = 0, each
δ_h summing to zero: these have H·n − H − rank of the differences of all T_h, stacked, dimensions. Heads that are
concatenated before an invertible W_O write into different directions, and nothing is added to what single heads leave
open; heads that are added write into the same ones, and their outputs cannot be told apart.
"""

import torch

from thalweg.capture.record import Block
from thalweg.identifiability.value_space import ValueSpace, singular_values
from thalweg.numerics import double, working
from thalweg.results.trust import Layer


def certify_layer(number: int, block: Block, space: ValueSpace) -> Layer:
    """Free dimensions at the position that sees most keys: head by head, and of all heads together."""
    row = int(space.supports.sum(-1).argmax())
    seen = space.supports[row]
    written = double(block.attention.values())[:, seen] @ double(block.projection)  # T of each head, [head key width]
    if not space.sinks:
        written = written - written.mean(1, keepdim=True)
    size = torch.linalg.matrix_norm(written, keepdim=True)
    stacked = (written / torch.where(size > 0, size, 1.0)).flatten(0, 1)  # heads of all sizes count
    found = singular_values(stacked, working(block.attention.value.dtype))
    rank = int((found > space.cut * found[:1]).sum())
    heads = len(written)
    return Layer(
        layer=number,
        heads=heads,
        heads_added=block.heads_added,
        ambiguity_apart=int(space.ambiguity[:, row].sum()),
        ambiguity_together=len(stacked) - rank - (0 if space.sinks else heads),
    )
