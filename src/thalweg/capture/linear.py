"""Affine maps x ↦ x W + b, read from modules of any class."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from thalweg.numerics import working


@dataclass(frozen=True, eq=False)
class Affine:
    """x ↦ x W + b. The weight keeps its stored dtype; it is converted to that of the operand on use."""

    weight: Float[Tensor, "in out"]
    bias: Float[Tensor, " out"] | None

    def linear(self, parts: Tensor) -> Tensor:
        return parts @ self.weight.to(parts.dtype)

    def transposed(self, slope: Tensor) -> Tensor:
        return slope @ self.weight.T.to(slope.dtype)


def read_affine(
    module: nn.Module, width: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "in out"], Float[Tensor, " out"] | None]:
    """W and b of a Linear or Conv1D as stored; of any other module, measured.

    A quantised or adapted layer has no plain weight, but an affine map is determined by the images of zero and the
    unit vectors.
    """
    if type(module) is nn.Linear:
        return module.weight.detach().T, _detached(module.bias)
    if type(module) is Conv1D:
        return module.weight.detach(), _detached(module.bias)
    with torch.no_grad():
        points = torch.eye(width + 1, width, dtype=dtype, device=device)
        images = module(points).to(working(dtype))
    bias = images[-1]
    return images[:-1] - bias, bias


def as_affine(module: nn.Module, dtype: torch.dtype, device: torch.device) -> Affine:
    """The affine map of a module that has a weight matrix, whatever its class."""
    weight = getattr(module, "weight", None)
    assert isinstance(weight, Tensor)
    width = weight.shape[0] if isinstance(module, Conv1D) else weight.shape[-1]
    return Affine(*read_affine(module, getattr(module, "in_features", width), dtype, device))


def _detached(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.detach()
