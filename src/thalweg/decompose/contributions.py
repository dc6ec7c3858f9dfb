"""How much of a block's output comes from each source: maps of ALTI and of the norm-based family."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps, TokenMap
from thalweg.decompose.parts import Parts

Measure = Literal["l1", "l2"]
ORDER = {"l1": 1, "l2": 2}


def proximity(parts: Parts, measure: Measure) -> TokenMap:
    """max(0, ‖y_i‖ − ‖y_i − T_i(x_j)‖): how near a part comes to the whole, not yet normalised.

    Columns are the block's keys; a cross-attention block has one more, the last, for its residual.
    """
    whole, distances = _distances(parts, parts.output, ORDER[measure], None)
    return (whole[:, None] - distances).clamp_min(0)


def head_proximity(parts: Parts, measure: Measure) -> tuple[HeadMaps, Float[Tensor, " query"]]:
    """The same for what each head brings on its own, and for the residual, which here stands apart.

    As in information flow routes (Ferrando & Voita 2024): the parts of a row are all heads' keys and the residual.
    """
    keys = parts.vectors.shape[1]
    apart = []
    for head in range(len(parts.vectors)):
        whole, distances = _distances(parts, parts.output, ORDER[measure], head)
        apart.append((whole[:, None] - distances).clamp_min(0))
    return torch.stack([one[:, :keys] for one in apart]), apart[0][:, keys]


def norms(parts: Parts) -> TokenMap:
    """‖T_i(x_j)‖₂, the size of each part (Kobayashi 2021), with the residual's column as in `proximity`."""
    return _distances(parts, torch.zeros_like(parts.output), 2, None)[1]


def _distances(parts: Parts, target: Tensor, order: int, head: int | None) -> tuple[Float[Tensor, " query"], TokenMap]:
    """‖target_i‖, and ‖target_i − T_i(x_j)‖ for all i and j, without ever holding more than one column of parts.

    T has the factor a_i, which is taken out of the norm: a_i ‖target_i / a_i − Σ_h α_ij^h g_j^h‖. One key at a time
    is a product of [row head] with [head width], which stays in the processor's cache; several would not. Both norms
    are added up in the same way, so that a part that is nothing comes out at exactly the distance of nothing.
    """
    own_column = parts.mixes_itself and head is None
    chosen = slice(None) if head is None else slice(head, head + 1)
    given = parts.vectors[chosen].transpose(0, 1).contiguous()  # [key head width]
    keys, width = given.shape[0], given.shape[2]
    wanted, own = target / parts.factor, parts.own / parts.factor
    ones = torch.ones(width, dtype=target.dtype, device=target.device)
    distances = torch.empty(keys + (not own_column), len(target), dtype=target.dtype, device=target.device)
    whole = torch.empty_like(distances[0])

    def size(away: Tensor, out: Tensor) -> None:
        torch.mv(away.abs_() if order == 1 else away.square_(), ones, out=out)

    for rows, weights in parts.rows():
        by_key = torch.empty(given.shape[1], keys, weights.shape[1], dtype=target.dtype, device=target.device)
        for turned, one in zip(by_key, weights[chosen], strict=True):
            turned.copy_(one.T)  # [key row] of one head: torch turns two axes fast, but not three
        away, there = wanted[rows].clone(), wanted[rows]
        size(away, whole[rows])
        columns = distances[:keys, rows].unbind(0)
        for turned, vectors, column in zip(by_key.unbind(1), given.unbind(0), columns, strict=True):
            torch.mm(turned.T, vectors, out=away).sub_(there)
            size(away, column)
        if own_column:  # a token's own part has the residual in it as well
            alone = weights[:, :, rows].diagonal(dim1=1, dim2=2)  # [head row]
            kept = torch.einsum("hr,hrd->rd", alone, parts.vectors[:, rows]) + own[rows]
            size(kept.sub_(there), distances.diagonal()[rows])
    if not own_column:
        size(own - wanted, distances[keys])
    if order == 2:
        whole, distances = whole.sqrt(), distances.sqrt()
    return whole * parts.factor[:, 0], distances.T * parts.factor


def shares(contributions: TokenMap, fallback: Int[Tensor, " query"]) -> tuple[TokenMap, int]:
    """Rows as shares of one; a row in which nothing contributes goes to its fallback column, and is counted."""
    sums = contributions.sum(-1, keepdim=True)
    empty = sums[:, 0] <= 0
    shared = contributions / torch.where(sums > 0, sums, 1)
    shared[empty] = 0
    shared[empty, fallback[empty]] = 1
    return shared, int(empty.sum())
