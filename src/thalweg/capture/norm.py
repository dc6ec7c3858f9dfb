"""Normalisation layers, identified by their effect and read from their modules."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.axes import Hidden
from thalweg.numerics import relative_error, working


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm or RMSNorm. With its deviation held fixed it is affine: LN(u) = L u / σ(u) + β.

    L = diag(γ)(I − 11ᵀ/d) for LayerNorm and diag(γ) for RMSNorm; σ² = var(u) + ε or mean(u²) + ε, the
    population variance with ε inside the root (Kobayashi 2021; Ferrando 2022).
    """

    weight: Float[Tensor, " width"] | None
    bias: Float[Tensor, " width"] | None
    eps: float
    centred: bool

    def deviation(self, point: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens 1"]:
        """σ at each token, the only nonlinear part of the norm."""
        return self._size(self._centred(point))

    def linear(self, parts: Float[Tensor, "*parts width"]) -> Float[Tensor, "*parts width"]:
        """L applied to each part; divided by `deviation`, the part's contribution to the output."""
        return self._weighted(self._centred(parts))

    def __call__(self, point: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """The norm itself."""
        centred = self._centred(point)
        out = self._weighted(centred / self._size(centred))
        return out if self.bias is None else out + self.bias.to(point.dtype)

    def _centred(self, parts: Tensor) -> Tensor:
        return parts - parts.mean(-1, keepdim=True) if self.centred else parts

    def _weighted(self, centred: Tensor) -> Tensor:
        return centred if self.weight is None else centred * self.weight.to(centred.dtype)

    def _size(self, centred: Tensor) -> Tensor:
        square = torch.linalg.vector_norm(centred, dim=-1, keepdim=True).square()
        return (square / centred.shape[-1] + self.eps).sqrt()


@dataclass(frozen=True)
class NormSite:
    """The name of a norm module and its kind; the weights are read when they are needed."""

    module: str
    centred: bool
    offset: bool  # the weight is stored as γ − 1, as in Gemma

    def read(self, model: nn.Module) -> Norm:
        """The norm with the module's current weights."""
        return _read(model.get_submodule(self.module), self.centred, self.offset)


def find_norm(name: str, module: nn.Module, argument: Hidden, returned: Hidden, precision: float) -> NormSite | None:
    """Identify `module` as a norm, or None: the norm must reproduce `returned` from `argument`.

    `precision` is the machine epsilon of the module's arithmetic.
    """
    weight = getattr(module, "weight", None)
    known = weight is None or (isinstance(weight, Tensor) and weight.shape == argument.shape[-1:])
    if _epsilon(module) is None or not known or argument.shape != returned.shape:
        return None
    kinds = [(centred, offset) for centred in (True, False) for offset in (False, True)]
    errors = [relative_error(_read(module, *kind)(argument), returned) for kind in kinds]
    best = min(range(len(kinds)), key=errors.__getitem__)
    if errors[best] > 2 * precision + 16 * torch.finfo(torch.float32).eps * argument.shape[-1] ** 0.5:
        return None
    return NormSite(name, *kinds[best])


def _epsilon(module: nn.Module) -> float | None:
    """ε under the root, by either of its two usual names."""
    epsilon = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    return epsilon if isinstance(epsilon, float) else None


def _read(module: nn.Module, centred: bool, offset: bool) -> Norm:
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if isinstance(weight, Tensor):
        weight = weight.detach().to(working(weight.dtype)) + float(offset)
    return Norm(weight, bias.detach() if isinstance(bias, Tensor) else None, _epsilon(module) or 0.0, centred)
