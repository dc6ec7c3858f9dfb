"""Ambiguity among softmaxes of the head's own keys (P2).

A head can only produce a = softmax(K·q). Moving its query by dq moves a by J_a·K·dq, J_a = diag(a) − a·aᵀ, and its
output by Tᵀ·J_a·K·dq. The row is locally unique given the keys if no reachable direction leaves the output unchanged:
rank(Tᵀ·J_a·K) = rank(J_a·K). This covers small query perturbations only.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from thalweg.axes import HeadMaps
from thalweg.capture.record import Attention
from thalweg.decompose.value_space import ValueSpace
from thalweg.numerics import double

REACH = 1e-6  # smaller moves of attention, relative to the row's largest, are lost in rounding
FINEST = 1e-8  # relative size that double precision resolves after one matrix product
ROW_ELEMENTS = 2**21  # numbers in the moves of one chunk of rows: 16 MB


@dataclass(frozen=True, eq=False)
class QueryMoves:
    """How some rows of one head move with the query, what they write, and the output per move that counts as none."""

    head: int
    rows: Int[Tensor, " row"]
    moves: Float[Tensor, "row key size"]
    matrix: Float[Tensor, "key column"]
    cuts: Float[Tensor, " row"]


def query_moves(
    attention: Attention, space: ValueSpace, rows: slice, weights: HeadMaps, chosen: Bool[Tensor, "head row"]
) -> Iterator[QueryMoves]:
    """The query moves of the chosen rows, in chunks; nothing without captured keys."""
    keys = attention.keys()
    if keys is None:
        return
    keys = double(keys)
    slopes = None if attention.softcap is None else double(attention.softcap_slopes(rows))
    exact = double(weights)
    step = max(1, ROW_ELEMENTS // keys[0].numel())
    supports = space.supports[rows]
    for head in range(len(exact)):
        for chunk in chosen[head].nonzero()[:, 0].split(step):
            seen = supports[chunk].any(0)  # keys hidden from all of these rows do not move
            slope = None if slopes is None else slopes[head, chunk][:, seen]
            moves = row_moves(exact[head, chunk][:, seen], keys[head, seen], slope)
            matrix = space.matrix[head, seen]
            size = (supports[chunk][:, seen].double() @ matrix.square().sum(-1)).sqrt()  # of the visible part
            yield QueryMoves(head, chunk, moves, matrix, max(space.cut, FINEST) * size)


def query_ambiguity(
    attention: Attention, space: ValueSpace, rows: slice, weights: HeadMaps
) -> Int[Tensor, "head row"] | None:
    """Dimension of the query moves that change a row's attention but not its output; None without captured keys.

    This is rank(J_a·K) − rank(Tᵀ·J_a·K). The second rank is taken over an orthonormal basis of the reachable moves,
    so that peaked rows, whose J_a is almost singular, are judged by output per move, not by the size of the move.
    """
    if attention.key is None:
        return None
    ambiguity = torch.zeros(weights.shape[:2], dtype=torch.int64)
    open_rows = space.ambiguity[:, rows] > 0  # unique rows are unique among softmaxes too
    for part in query_moves(attention, space, rows, weights, open_rows):
        ambiguity[part.head, part.rows] = hidden_moves(part.moves, part.matrix, part.cuts)
    return ambiguity


def row_moves(
    weights: Float[Tensor, "row key"], keys: Float[Tensor, "key size"], slopes: Float[Tensor, "row key"] | None = None
) -> Float[Tensor, "row key size"]:
    """J_a·K of each row: how attention moves with the query. `slopes` are the slopes of a softcap on the logits."""
    pulled = weights if slopes is None else weights * slopes
    mean = pulled @ keys  # [row size]
    return pulled[..., None] * keys - weights[..., None] * mean[:, None, :]


def hidden_moves(
    moves: Float[Tensor, "row key size"], matrix: Float[Tensor, "key column"], cuts: Float[Tensor, " row"]
) -> Int[Tensor, " row"]:
    """Number of independent moves that leave the output unchanged: a unit move changes it by at most the cut."""
    gram = moves.mT @ moves  # [row size size]
    shown = matrix.mT @ moves  # [row column size]
    count = torch.zeros(len(moves), dtype=torch.int64)
    # ‖shown·x‖ > cut · ‖moves·x‖ for all x, by a Cholesky factorisation, settles most rows
    scale = gram.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(gram.dtype).tiny).rsqrt()
    balance = scale[:, :, None] * scale[:, None, :]
    margin = 1e-12 * torch.eye(gram.shape[-1], dtype=gram.dtype)
    _, failed = torch.linalg.cholesky_ex((shown.mT @ shown - cuts.square()[:, None, None] * gram) * balance - margin)
    unsettled = failed != 0
    if unsettled.any():
        reached, basis = _reachable(gram[unsettled])
        shown, cuts = shown[unsettled] @ basis, cuts[unsettled]
        # of the others, settle those whose unit moves all change the output clearly
        size = shown.square().sum((-2, -1))
        least = torch.where(reached, (cuts.square() + 1e-12 * size)[:, None], -1.0)
        _, failed = torch.linalg.cholesky_ex(shown.mT @ shown - torch.diag_embed(least))
        hidden = torch.zeros(len(shown), dtype=torch.int64)
        doubtful = failed != 0
        visible = torch.linalg.svdvals(shown[doubtful]) > cuts[doubtful, None]
        hidden[doubtful] = reached[doubtful].sum(-1) - visible.sum(-1)
        count[unsettled] = hidden
    return count


def margins(
    moves: Float[Tensor, "row key size"], matrix: Float[Tensor, "key column"], cuts: Float[Tensor, " row"]
) -> Float[Tensor, " row"]:
    """Smallest change of the output by a reachable unit move, relative to the cut; locally unique rows exceed one."""
    reached, basis = _reachable(moves.mT @ moves)
    sizes = torch.linalg.svdvals(matrix.mT @ moves @ basis)  # [row direction]
    sizes = F.pad(sizes, (0, max(0, moves.shape[-1] - sizes.shape[-1])))  # more moves than the output has dimensions
    count = reached.sum(-1)
    smallest = sizes.gather(1, (count - 1).clamp_min(0)[:, None])[:, 0]
    return torch.where(count > 0, smallest / cuts.clamp_min(torch.finfo(cuts.dtype).tiny), torch.inf)


def _reachable(gram: Float[Tensor, "row size size"]) -> tuple[Bool[Tensor, "row size"], Float[Tensor, "row size size"]]:
    """Query moves that move attention by one unit each, independently; those that move almost nothing are zero."""
    squares, vectors = torch.linalg.eigh(gram)
    tiny = torch.finfo(squares.dtype).tiny
    reached = squares > REACH**2 * squares[:, -1:].clamp_min(tiny)
    return reached, vectors * torch.where(reached, squares.clamp_min(tiny).rsqrt(), 0.0)[:, None, :]


def free_ambiguity(tokens: int, key_size: int, value_size: int) -> int:
    """Dimension of the attention maps with the same output when queries and keys are both free, generically.

    Logits of rank k, up to a constant per row, have k·(2n − k − 1) parameters with k = min(key_size, n − 1); the
    output gives n·min(value_size, n − 1) equations. Valid for heads in which every query sees every key.
    """
    rank = min(key_size, tokens - 1)
    return max(0, rank * (2 * tokens - rank - 1) - tokens * min(value_size, tokens - 1))
