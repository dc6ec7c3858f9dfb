"""A normalisation layer, read from its module and proved on what it really did."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.axes import Hidden
from thalweg.numerics import relative_error, working


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm or RMSNorm, which at a fixed point is a linear map: LN(u) = L u / σ(u) + β.

    L = diag(γ)(I − 11ᵀ/d) for LayerNorm and diag(γ) for RMSNorm; σ² = var(u) + ε or mean(u²) + ε, the
    population variance with ε inside the root (Kobayashi 2021; Ferrando 2022).
    """

    weight: Float[Tensor, " width"] | None
    bias: Float[Tensor, " width"] | None
    eps: float
    centred: bool

    def deviation(self, point: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens 1"]:
        """σ at each token, the only part of the norm that is not linear."""
        return self._size(self._centred(point))

    def linear(self, parts: Float[Tensor, "*parts width"]) -> Float[Tensor, "*parts width"]:
        """L applied to each part; divide by `deviation` to get what the part adds to the output."""
        return self._weighted(self._centred(parts))

    def __call__(self, point: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """The norm itself: the sum of the linear part and the bias."""
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
    """Which module is a norm, and of what kind; the numbers are read from it when they are needed."""

    module: str
    centred: bool
    offset: bool  # the weight is stored as γ − 1, as in Gemma

    def read(self, model: nn.Module) -> Norm:
        """The norm with the module's present numbers."""
        return _read(model.get_submodule(self.module), self.centred, self.offset)


def find_norm(name: str, module: nn.Module, given: Hidden, returned: Hidden, precision: float) -> NormSite | None:
    """The kind of norm that `module` is, if it is one: it must turn `given` into `returned`.

    `precision` is the machine epsilon of the arithmetic in which the module worked.
    """
    weight = getattr(module, "weight", None)
    known = weight is None or (isinstance(weight, Tensor) and weight.shape == given.shape[-1:])
    if _inside(module) is None or not known or given.shape != returned.shape:
        return None
    kinds = [(centred, offset) for centred in (True, False) for offset in (False, True)]
    errors = [relative_error(_read(module, *kind)(given), returned) for kind in kinds]
    best = min(range(len(kinds)), key=errors.__getitem__)
    if errors[best] > 2 * precision + 16 * torch.finfo(torch.float32).eps * given.shape[-1] ** 0.5:
        return None
    return NormSite(name, *kinds[best])


def _inside(module: nn.Module) -> float | None:
    """ε under the root, by the two names that are in use."""
    inside = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    return inside if isinstance(inside, float) else None


def _read(module: nn.Module, centred: bool, offset: bool) -> Norm:
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if isinstance(weight, Tensor):
        weight = weight.detach().to(working(weight.dtype)) + float(offset)
    return Norm(weight, bias.detach() if isinstance(bias, Tensor) else None, _inside(module) or 0.0, centred)
