"""One block as a map over all tokens of a capture."""

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import Step, TokenMap
from thalweg.capture.record import Block, Capture


def over_all_tokens(
    capture: Capture, block: Block, weights: TokenMap, own: Float[Tensor, " query"] | float = 0.0
) -> Step:
    """Place a block's weights at its queries and keys, and `own` on the diagonal of its queries.

    Tokens that the block does not update (the other sequence of an encoder-decoder) keep what they have. All steps of
    a capture are on one device, whatever devices the layers are on.
    """
    device = capture.blocks[0].input.device
    step = torch.eye(len(capture.tokens), dtype=weights.dtype, device=device)
    step[block.queries] *= own[:, None].to(device) if isinstance(own, Tensor) else own
    step[block.queries, block.keys] += weights.to(device)
    return step
