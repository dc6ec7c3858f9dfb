"""Exact decomposition of a block's output into a sum over source tokens: y_i = Σ_j T_i(x_j) + rest_i.

T_i(x_j) = a_i Σ_h α_ij^h g_j^h + [i = j] own_i. A norm is linear once its deviation σ is fixed to the value of the real
pass, so centring, norm weight, scale and multiplier are folded into the output projection, and with it into the value
vectors g, once; only the factor a_i depends on the row. ALTI (Ferrando 2022), section 3; Kobayashi 2021. Biases belong
to no token and stay in `rest`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import Hidden
from thalweg.capture.record import Block
from thalweg.errors import ProofError
from thalweg.numerics import relative_error, working

CHUNK_ELEMENTS = 2**20  # numbers in a chunk of whole vectors: 4 MB in float32
Include = Literal["attention", "residual", "block"]


@dataclass(frozen=True, eq=False)
class Parts:
    """The pieces of T for one block; the attention weights α stay with the block and are streamed over rows."""

    block: Block
    vectors: Float[Tensor, "head key width"]  # g: what a key gives, before attention and a_i
    factor: Float[Tensor, "query 1"]  # a_i
    own: Hidden  # what the residual adds to its own row
    rest: Hidden  # biases, which belong to no token
    output: Hidden  # y of the real pass
    error: float  # of Σ_j T + rest against y

    @property
    def mixes_itself(self) -> bool:
        """Whether queries and keys are the same tokens, so that the residual belongs to a column."""
        return self.block.queries == self.block.keys

    def diagonal(self) -> Hidden:
        """T_i(x_i): what each token keeps of itself, by the residual and by attention to itself."""
        if not self.mixes_itself:
            return self.own
        kept = torch.empty_like(self.own)
        for rows, weights, _ in self.block.rows():
            alone = weights[:, :, rows].diagonal(dim1=1, dim2=2)  # [head row]
            kept[rows] = torch.einsum("hr,hrd->rd", alone, self.vectors[:, rows])
        return kept * self.factor + self.own


def decompose(block: Block, include: Include = "block") -> Parts:
    """Fold everything linear into the projection of the values, and verify that the parts sum to the real output.

    `include` leaves out the norm after the sum ("residual"), or the residual as well ("attention").
    """
    exact = working(block.input.dtype)
    attention, projection = block.attention, block.projection.to(exact)  # [head value_size width]
    mixed = torch.einsum("qhv,hvd->qd", attention.output.to(exact), projection)
    bias = torch.zeros_like(mixed) if block.bias is None else block.bias.to(exact).expand_as(mixed)
    factor = torch.ones(len(mixed), 1, dtype=exact, device=mixed.device)
    if block.branch_norm is not None:
        norm = block.branch_norm
        factor = 1 / norm.deviation(mixed + bias)
        projection, mixed = norm.linear(projection), norm.linear(mixed) * factor
        bias = norm.linear(bias) * factor
        if norm.bias is not None:
            bias = bias + norm.bias.to(exact)
    for scale in (block.scale, block.multiplier if block.multiplier != 1 else None):
        if scale is not None:
            scale = scale.to(exact) if isinstance(scale, Tensor) else scale
            projection, mixed, bias = projection * scale, mixed * scale, bias * scale
    own = block.input.to(exact)
    output = block.output.to(exact)
    if include != "block":
        output = block.summed.to(exact)
    if include == "attention":
        output, own = output - own, torch.zeros_like(own)
    if block.norm is not None and include == "block":
        norm = block.norm
        deviation = norm.deviation(own + mixed + bias)
        projection, factor = norm.linear(projection), factor / deviation
        own, mixed, bias = (norm.linear(part) / deviation for part in (own, mixed, bias))
        if norm.bias is not None:
            bias = bias + norm.bias.to(exact)
    error = _sum_error(block, include, own + mixed + bias, output)
    return Parts(block, attention.values().to(exact) @ projection, factor, own, bias, output, error)


def _sum_error(block: Block, include: Include, total: Hidden, output: Hidden) -> float:
    """The relative error of the sum of parts, or an error if it exceeds the block's tolerance."""
    error, scale = relative_error(total, output), 1.0
    if include == "attention":  # the sum was rounded at the size of the residual, which is left out here
        scale = float(block.summed.norm() / output.norm().clamp_min(torch.finfo(output.dtype).tiny))
    if not error <= block.tolerance * max(1.0, scale):
        raise ProofError(
            f"the parts of {block.name!r} sum to something {error:.1e} away from the block's output, "
            f"where {block.tolerance:.1e} is allowed"
        )
    return error


def mixing_ratio(parts: Parts) -> Float[Tensor, " query"]:
    """The share of other tokens in a block's output: ‖Σ_{j≠i} T_ij‖ / (‖Σ_{j≠i} T_ij‖ + ‖T_ii‖).

    Kobayashi 2021 (AttnResLn-N). In trained encoders it is far below the half that rollout assumes.
    """
    kept = parts.diagonal()
    context = (parts.output - parts.rest - kept).norm(dim=1)
    return context / (context + kept.norm(dim=1)).clamp_min(torch.finfo(kept.dtype).tiny)
