"""Linear paths: the steps between two hidden states, made linear at the point they were computed at.

A *site* says where a step is found in the model; reading it gives a *step* with the module's weights; a step at a
given point is a *piece*, which is affine: step(point) = piece.linear(point) + bias, exactly. Norms keep the deviation
they have at the point; a curve f is replaced by its slope from the origin, f(z)/z; a gate keeps its value. If the
start is a sum of parts, the end is the sum of the images of these parts, plus biases.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.axes import Hidden
from thalweg.capture.linear import Affine, as_affine
from thalweg.capture.norm import Norm, NormSite
from thalweg.capture.sites import (
    GATES,
    AffineSite,
    BiasSite,
    ColumnsSite,
    Curve,
    CurveSite,
    GateSite,
    PoolSite,
    ScaleSite,
    Site,
    pooling_weights,
)
from thalweg.numerics import tolerance


@dataclass(frozen=True, eq=False)
class NormAt:
    """A norm with the deviation it has at a point."""

    norm: Norm
    deviation: Float[Tensor, "token 1"]

    @property
    def bias(self) -> Tensor | None:
        return None if self.norm.bias is None else self.norm.bias.to(self.deviation.dtype)

    def linear(self, parts: Tensor) -> Tensor:
        return self.norm.linear(parts) / self.deviation[:, None]

    def transposed(self, slope: Tensor) -> Tensor:
        back = slope if self.norm.weight is None else slope * self.norm.weight.to(slope.dtype)
        if self.norm.centred:
            back = back - back.mean(-1, keepdim=True)
        return back / self.deviation


@dataclass(frozen=True, eq=False)
class Times:
    """Multiplication by fixed factors: a scale, a curve's slope or a gate."""

    factor: Float[Tensor, "token width"]
    bias: None = None

    def linear(self, parts: Tensor) -> Tensor:
        return parts * self.factor[:, None]

    def transposed(self, slope: Tensor) -> Tensor:
        return slope * self.factor


@dataclass(frozen=True, eq=False)
class Pool:
    """Weighted means over tokens, concatenated."""

    weights: Float[Tensor, "part token"]
    bias: None = None

    def linear(self, parts: Tensor) -> Tensor:
        pooled = torch.einsum("pt,tsd->spd", self.weights, parts)
        return pooled.flatten(1)[None]  # [1 source part*width]

    def transposed(self, slope: Tensor) -> Tensor:
        return self.weights.T @ slope.reshape(len(self.weights), -1)


# `linear` maps parts forward, `transposed` maps slopes backward, `bias` belongs to no part.
Piece = Affine | NormAt | Times | Pool
Step = Affine | Callable[[Hidden, Hidden], Piece]  # from the current point and the start of the path


@dataclass(frozen=True, eq=False)
class LinearPath:
    """Steps with the current weights of their modules, from start to end."""

    steps: tuple[Step, ...]

    def at(self, start: Hidden) -> tuple[list[Piece], Float[Tensor, "image out"]]:
        """The pieces at the points between `start` and the end, and the end."""
        pieces, point = [], start
        for step in self.steps:
            piece = step if isinstance(step, Affine) else step(point, start)
            pieces.append(piece)
            point = piece.linear(point[:, None])[:, 0]
            if piece.bias is not None:
                point = point + piece.bias.to(point.dtype)
        return pieces, point


def allowed_error(dtype: torch.dtype, width: int) -> float:
    """Tolerance of a path's end; at least that of float32, which norms use even in float64 models."""
    return max(tolerance(dtype, width), tolerance(torch.float32, width))


def read_path(model: nn.Module, sites: Sequence[Site], dtype: torch.dtype, device: torch.device) -> LinearPath:
    """Read the weights of a path from the model; `dtype` is the one it computes in."""
    steps: list[Step] = []
    for site in sites:
        if isinstance(site, BiasSite | ColumnsSite):
            affine = steps.pop()
            assert isinstance(affine, Affine)
            steps.append(_altered(affine, site, model))
        else:
            steps.append(_read(model, site, dtype, device))
    return LinearPath(tuple(steps))


def _altered(affine: Affine, site: BiasSite | ColumnsSite, model: nn.Module) -> Affine:
    """Select columns of an affine map or add to its bias, so that only the used part of a bias is attributed."""
    weight, bias = affine.weight, affine.bias
    if isinstance(site, BiasSite):
        added = model.get_parameter(site.parameter).detach()
        return Affine(weight, added if bias is None else bias + added)
    columns = torch.tensor(site.columns, device=weight.device)
    return Affine(weight[:, columns], None if bias is None else bias[columns])


def _read(
    model: nn.Module,
    site: NormSite | AffineSite | ScaleSite | CurveSite | GateSite | PoolSite,
    dtype: torch.dtype,
    device: torch.device,
) -> Step:
    if isinstance(site, NormSite):
        norm = site.read(model)
        return lambda point, _: NormAt(norm, norm.deviation(point))
    if isinstance(site, AffineSite):
        return as_affine(model.get_submodule(site.module), dtype, device)
    if isinstance(site, ScaleSite):
        module = model.get_submodule(site.module)
        return lambda point, _: Times(_scale(module, point, dtype).expand_as(point))
    if isinstance(site, CurveSite):
        return lambda point, _: Times(origin_slope(site.curve(), point))
    if isinstance(site, GateSite):
        gate = read_path(model, site.gate, dtype, device)
        return lambda _, begin: Times(GATES[site.name](gate.at(begin)[1]))
    return lambda point, _: Pool(torch.stack([pooling_weights(rows, point) for rows in site.rows]))


def origin_slope(curve: Curve, point: Hidden) -> Hidden:
    """f(z)/z, the slope of the line from the origin to the curve; at zero that of a nearby point."""
    nonzero = torch.where(point.abs() < 1e-12, 1e-12, point)
    return curve(nonzero) / nonzero


@torch.no_grad()
def _scale(module: nn.Module, point: Hidden, dtype: torch.dtype) -> Tensor:
    return module(torch.ones_like(point[:1], dtype=dtype)).to(point.dtype)
