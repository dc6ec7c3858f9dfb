"""A normalisation layer, read from its module and proved on what it really did."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.axes import Hidden
from thalweg.numerics import relative_error, tolerance, working


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm or RMSNorm, which at a fixed point is a linear map: LN(u) = L u / σ(u) + β.

    L = diag(γ)(I − 11ᵀ/d) for LayerNorm and diag(γ) for RMSNorm; σ² = var(u) + ε or mean(u²) + ε, the
    population variance with ε inside the root (Kobayashi 2021; ALTI, section 3.1.2 of the digest).
    """

    weight: Float[Tensor, " width"]
    bias: Float[Tensor, " width"] | None
    eps: float
    centred: bool

    def deviation(self, point: Hidden) -> Float[Tensor, "token 1"]:
        """σ at each token, the only part of the norm that is not linear."""
        if self.centred:
            point = point - point.mean(-1, keepdim=True)
        return (point.square().mean(-1, keepdim=True) + self.eps).sqrt()

    def linear(self, parts: Float[Tensor, "*parts width"]) -> Float[Tensor, "*parts width"]:
        """L applied to each part; divide by `deviation` to get what the part adds to the output."""
        if self.centred:
            parts = parts - parts.mean(-1, keepdim=True)
        return parts * self.weight.to(parts.dtype)

    def __call__(self, point: Hidden) -> Hidden:
        """The norm itself: the sum of the linear part and the bias."""
        out = self.linear(point) / self.deviation(point)
        return out if self.bias is None else out + self.bias.to(point.dtype)


def read_norm(
    module: nn.Module, given: Hidden, returned: Hidden, eps: float | None = None
) -> Norm | None:
    """The norm that `module` computes, if it is one: it must turn `given` into `returned`.

    `eps` is the precision in which the module worked, where the tensors have been cast since.
    """
    inside = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    weight = getattr(module, "weight", None)
    bias = getattr(module, "bias", None)
    width = given.shape[-1]
    exact = working(given.dtype)
    if not isinstance(inside, float) or given.shape != returned.shape:
        return None
    if weight is None:
        scales = [torch.ones(width, dtype=exact, device=given.device)]
    elif weight.shape == (width,):
        scales = [weight.detach().to(exact), 1 + weight.detach().to(exact)]  # Gemma stores γ − 1
    else:
        return None
    shift = bias.detach() if isinstance(bias, Tensor) else None
    norms = [Norm(scale, shift, inside, centred) for scale in scales for centred in (True, False)]
    errors = [relative_error(norm(given.to(exact)), returned) for norm in norms]
    best = min(range(len(norms)), key=errors.__getitem__)
    allowed = tolerance(returned.dtype, width) if eps is None else 8 * eps + 16 * 2**-23 * width**0.5
    return norms[best] if errors[best] <= allowed else None
