"""Contribution of each source to a block's output: the maps of ALTI and of the norm-based methods.

Maps come with the worst parity of the rows they were computed from, as (map, parity).
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps, TokenMap
from thalweg.decompose.parts import Parts
from thalweg.numerics import worst

Measure = Literal["l1", "l2"]
ORDER = {"l1": 1, "l2": 2}


def proximity(parts: Parts, measure: Measure) -> tuple[TokenMap, float]:
    """max(0, ‖y_i‖ − ‖y_i − T_i(x_j)‖): how close a part comes to the output, not yet normalised; and the parity.

    Columns are the block's keys; a cross-attention block has one more, the last, for its residual.
    """
    size, distances, parity = _distances(parts, parts.output, ORDER[measure], None)
    return (size[:, None] - distances).clamp_min(0), parity


def head_proximity(parts: Parts, measure: Measure) -> tuple[HeadMaps, Float[Tensor, " query"]]:
    """The same for each head alone, and for the residual, which is a part of its own here.

    As in information flow routes (Ferrando & Voita 2024): the parts of a row are all heads' keys and the residual.
    """
    keys = parts.vectors.shape[1]
    maps = []
    for head in range(len(parts.vectors)):
        size, distances, _ = _distances(parts, parts.output, ORDER[measure], head)
        maps.append((size[:, None] - distances).clamp_min(0))
    return torch.stack([head_map[:, :keys] for head_map in maps]), maps[0][:, keys]


def norms(parts: Parts) -> tuple[TokenMap, float]:
    """‖T_i(x_j)‖₂, the size of each part (Kobayashi 2021), with a residual column as in `proximity`; and the parity."""
    return _distances(parts, torch.zeros_like(parts.output), 2, None)[1:]


def _distances(
    parts: Parts, target: Tensor, order: int, head: int | None
) -> tuple[Float[Tensor, " query"], TokenMap, float]:
    """‖target_i‖, ‖target_i − T_i(x_j)‖ for all i and j, and the parity; only one column of parts is held at a time.

    T has the factor a_i, which is taken out of the norm: a_i ‖target_i / a_i − Σ_h α_ij^h g_j^h‖. One key at a time
    is a product of [row head] with [head width], which stays in the processor's cache; several would not. Both norms
    are summed in the same order, so that a zero part comes out at exactly the distance of zero.
    """
    own_column = parts.mixes_itself and head is None
    chosen = slice(None) if head is None else slice(head, head + 1)
    vectors = parts.vectors[chosen].transpose(0, 1).contiguous()  # [key head width]
    keys, width = vectors.shape[0], vectors.shape[2]
    scaled, own = target / parts.factor, parts.own / parts.factor
    ones = torch.ones(width, dtype=target.dtype, device=target.device)
    distances = torch.empty(keys + (not own_column), len(target), dtype=target.dtype, device=target.device)
    sizes = torch.empty_like(distances[0])
    parities = []

    def measure(difference: Tensor, out: Tensor) -> None:
        torch.mv(difference.abs_() if order == 1 else difference.square_(), ones, out=out)

    for rows, weights, parity in parts.block.rows():
        parities.append(parity)
        by_key = torch.empty(vectors.shape[1], keys, weights.shape[1], dtype=target.dtype, device=target.device)
        for transposed, head_weights in zip(by_key, weights[chosen], strict=True):
            transposed.copy_(head_weights.T)  # [key row] of one head: torch transposes two axes fast, but not three
        difference, aim = scaled[rows].clone(), scaled[rows]
        measure(difference, sizes[rows])
        columns = distances[:keys, rows].unbind(0)
        for key_weights, key_vectors, column in zip(by_key.unbind(1), vectors.unbind(0), columns, strict=True):
            torch.mm(key_weights.T, key_vectors, out=difference).sub_(aim)
            measure(difference, column)
        if own_column:  # a token's own part includes the residual
            alone = weights[:, :, rows].diagonal(dim1=1, dim2=2)  # [head row]
            kept = torch.einsum("hr,hrd->rd", alone, parts.vectors[:, rows]) + own[rows]
            measure(kept.sub_(aim), distances.diagonal()[rows])
    if not own_column:
        measure(own - scaled, distances[keys])
    if order == 2:
        sizes, distances = sizes.sqrt(), distances.sqrt()
    return sizes * parts.factor[:, 0], distances.T * parts.factor, worst(parities)


def shares(contributions: TokenMap, fallback: Int[Tensor, " query"]) -> tuple[TokenMap, int]:
    """Rows divided by their sums, and how many rows had no contribution and went to their fallback column."""
    sums = contributions.sum(-1, keepdim=True)
    empty = sums[:, 0] <= 0
    shared = contributions / torch.where(sums > 0, sums, 1)
    shared[empty] = 0
    shared[empty, fallback[empty]] = 1
    return shared, int(empty.sum())
