"""Where the steps of a path from one hidden state to another are found in a model."""

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
Rows = Literal["first", "last"] | int  # a number: the mean of all rows from there on


@dataclass(frozen=True)
class AffineSite:
    module: str


@dataclass(frozen=True)
class BiasSite:
    """A parameter that is added to what an affine map returned, without a module of its own."""

    parameter: str


@dataclass(frozen=True)
class ScaleSite:
    """A module that multiplies each channel with a number of its own."""

    module: str


@dataclass(frozen=True)
class ColumnsSite:
    """Some columns of what an affine map returned, in some order: values out of queries, keys and values."""

    columns: tuple[int, ...]


@dataclass(frozen=True)
class CurveSite:
    name: str
    size: float = 0.0

    def curve(self) -> Curve:
        if self.name in CURVES:
            return CURVES[self.name]
        return lambda z: SIZED[self.name](z, self.size)


@dataclass(frozen=True)
class GateSite:
    """Multiplication with f(gate), where the gate is itself reached from the start of the path."""

    name: str
    gate: "tuple[Site, ...]"


@dataclass(frozen=True)
class PoolSite:
    """One vector out of the rows of all tokens: one of them, their mean, or several such side by side."""

    rows: tuple[Rows, ...]


Site = NormSite | AffineSite | BiasSite | ScaleSite | ColumnsSite | CurveSite | GateSite | PoolSite


def pooling_weights(rows: Rows, point: Hidden) -> Float[Tensor, " token"]:
    weights = torch.zeros_like(point[:, 0])
    if isinstance(rows, int):
        weights[rows:] = 1 / max(1, len(point) - rows)
    else:
        weights[0 if rows == "first" else -1] = 1
    return weights
