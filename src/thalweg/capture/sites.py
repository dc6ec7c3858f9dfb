"""Sites: where the steps of a path between two hidden states are found in a model, without their numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.axes import Hidden
from thalweg.capture.norm import NormSite

Curve = Callable[[Tensor], Tensor]
CURVES: dict[str, Curve] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": lambda z: z * torch.sigmoid(1.702 * z),
    "silu": F.silu,
    "relu_squared": lambda z: F.relu(z).square(),
    "tanh": torch.tanh,
    "mish": F.mish,
    "elu": F.elu,
}
GATES: dict[str, Curve] = {**CURVES, "sigmoid": torch.sigmoid}  # a gate need not pass through the origin
SIZED: dict[str, Callable[[Tensor, float], Tensor]] = {
    "times": lambda z, size: z * size,
    "clip": lambda z, size: z.clamp(-size, size),
    "soft_cap": lambda z, size: size * torch.tanh(z / size),
}
Rows = Literal["first", "last"] | int  # an int: the mean of all rows from that one on


@dataclass(frozen=True)
class AffineSite:
    """A module with a weight matrix."""

    module: str


@dataclass(frozen=True)
class BiasSite:
    """A parameter added to the result of an affine map outside of any module."""

    parameter: str


@dataclass(frozen=True)
class ScaleSite:
    """A module that multiplies each channel by its own factor."""

    module: str


@dataclass(frozen=True)
class ColumnsSite:
    """A selection of columns from the result of an affine map, such as the values of a fused QKV projection."""

    columns: tuple[int, ...]


@dataclass(frozen=True)
class CurveSite:
    """An elementwise function; `size` is the parameter of those in `SIZED`."""

    name: str
    size: float = 0.0

    def curve(self) -> Curve:
        if self.name in CURVES:
            return CURVES[self.name]
        return lambda z: SIZED[self.name](z, self.size)


@dataclass(frozen=True)
class GateSite:
    """Multiplication by f(gate), where `gate` is itself a path from the start."""

    name: str
    gate: "tuple[Site, ...]"


@dataclass(frozen=True)
class PoolSite:
    """Pooling of all tokens into one vector: one row, a mean of rows, or several of these concatenated."""

    rows: tuple[Rows, ...]


Site = NormSite | AffineSite | BiasSite | ScaleSite | ColumnsSite | CurveSite | GateSite | PoolSite


def pooling_weights(rows: Rows, point: Hidden) -> Float[Tensor, " token"]:
    """The weight of each token in the pooled vector."""
    weights = torch.zeros_like(point[:, 0])
    if isinstance(rows, int):
        weights[rows:] = 1 / max(1, len(point) - rows)
    else:
        weights[0 if rows == "first" else -1] = 1
    return weights
