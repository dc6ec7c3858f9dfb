"""Rows of scores as shares of one."""

import torch
from jaxtyping import Float
from torch import Tensor


def normalised(scores: Float[Tensor, "target source"]) -> Float[Tensor, "target source"]:
    """Each row divided by its sum; a row of zeros stays one."""
    return scores / scores.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)


def relative_to(
    scores: Float[Tensor, "target source"], expected: Float[Tensor, "target source"]
) -> Float[Tensor, "target source"]:
    """How much more than expected each source gives, as shares; nothing where nothing can be expected."""
    lift = torch.where(expected > 0, scores / expected.clamp_min(torch.finfo(scores.dtype).tiny), 0.0)
    return normalised(lift)
