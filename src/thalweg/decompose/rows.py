"""Rows of scores as shares that sum to one."""

import torch
from jaxtyping import Float
from torch import Tensor


def normalised(scores: Float[Tensor, "target source"]) -> Float[Tensor, "target source"]:
    """Divide each row by its sum; a row of zeros stays zero."""
    return scores / scores.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)


def relative_to(
    scores: Float[Tensor, "target source"], expected: Float[Tensor, "target source"]
) -> Float[Tensor, "target source"]:
    """Divide scores by their expected values, and rows by their sum; zero where zero is expected."""
    lift = torch.where(expected > 0, scores / expected.clamp_min(torch.finfo(scores.dtype).tiny), 0.0)
    return normalised(lift)
