"""What is left of the ambiguity when an alternative must be a softmax of the head's own keys (P2).

A head can only produce a = softmax(K·q). Moving its query by dq moves a by J_a·K·dq, J_a = diag(a) − a·aᵀ, and its
output by Tᵀ·J_a·K·dq. The row is locally unique, its keys being as they are, when no reachable direction leaves the
output unchanged: rank(Tᵀ·J_a·K) = rank(J_a·K). That is a statement about small changes of the query alone.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.record import Attention
from thalweg.decompose.value_space import ValueSpace
from thalweg.numerics import double

REACH = 1e-6  # smaller moves of attention, relative to the row's largest, are not told from rounding
FINEST = 1e-8  # what double precision can tell after one product of two matrices
ROW_ELEMENTS = 2**21  # numbers in the moves of rows that are looked at together: 16 MB


def query_ambiguity(
    attention: Attention, space: ValueSpace, rows: slice, weights: HeadMaps
) -> Int[Tensor, "head row"] | None:
    """Dimension of the moves of the query that change a row's attention and not its output; None without keys.

    Counted as rank(J_a·K) − rank(Tᵀ·J_a·K), the second rank over an orthonormal basis of the reachable moves, so
    that peaked rows, whose J_a is almost singular, are judged by output per move and not by the size of the move.
    """
    keys = attention.keys()
    if keys is None:
        return None
    keys = double(keys)
    bends = None if attention.softcap is None else double(attention.softcap_slopes(rows))
    exact = double(weights)
    found = torch.zeros(exact.shape[:2], dtype=torch.int64)
    open_rows = space.ambiguity[:, rows] > 0  # a row that is unique anyway is unique among softmaxes too
    step = max(1, ROW_ELEMENTS // keys[0].numel())
    supports = space.supports[rows]
    for head in range(len(exact)):
        for some in open_rows[head].nonzero()[:, 0].split(step):
            seen = supports[some].any(0)  # what none of these rows sees does not move
            bend = None if bends is None else bends[head, some][:, seen]
            moves = row_moves(exact[head, some][:, seen], keys[head, seen], bend)
            matrix = space.matrix[head, seen]
            size = (supports[some][:, seen].double() @ matrix.square().sum(-1)).sqrt()  # of what is seen
            found[head, some] = hidden_moves(moves, matrix, max(space.cut, FINEST) * size)
    return found


def row_moves(
    weights: Float[Tensor, "row key"], keys: Float[Tensor, "key size"], bends: Float[Tensor, "row key"] | None = None
) -> Float[Tensor, "row key size"]:
    """J_a·K of each row: how attention moves with the query. `bends` is the slope of a cap on the logits."""
    pulled = weights if bends is None else weights * bends
    mean = pulled @ keys  # [row size]
    return pulled[..., None] * keys - weights[..., None] * mean[:, None, :]


def hidden_moves(
    moves: Float[Tensor, "row key size"], matrix: Float[Tensor, "key column"], cuts: Float[Tensor, " row"]
) -> Int[Tensor, " row"]:
    """How many independent moves leave the output where it is: a unit of them changes it by no more than the cut."""
    gram = moves.mT @ moves  # [row size size]
    shown = matrix.mT @ moves  # [row column size]
    found = torch.zeros(len(moves), dtype=torch.int64)
    # ‖shown·x‖ > cut · ‖moves·x‖ for all x, by a Cholesky factorisation, settles most rows
    scale = gram.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(gram.dtype).tiny).rsqrt()
    balance = scale[:, :, None] * scale[:, None, :]
    margin = 1e-12 * torch.eye(gram.shape[-1], dtype=gram.dtype)
    _, failed = torch.linalg.cholesky_ex((shown.mT @ shown - cuts.square()[:, None, None] * gram) * balance - margin)
    unsettled = failed != 0
    if unsettled.any():
        squares, vectors = torch.linalg.eigh(gram[unsettled])
        largest = squares[:, -1:].clamp_min(torch.finfo(squares.dtype).tiny)
        reached = squares > REACH**2 * largest
        unit = torch.where(reached, squares.clamp_min(torch.finfo(squares.dtype).tiny).rsqrt(), 0.0)
        shown, cuts = shown[unsettled] @ (vectors * unit[:, None, :]), cuts[unsettled]
        # and of the others those whose unit moves, now that they are known, are all seen clearly
        size = shown.square().sum((-2, -1))
        least = torch.where(reached, (cuts.square() + 1e-12 * size)[:, None], -1.0)
        _, failed = torch.linalg.cholesky_ex(shown.mT @ shown - torch.diag_embed(least))
        hidden = torch.zeros(len(shown), dtype=torch.int64)
        doubtful = failed != 0
        visible = torch.linalg.svdvals(shown[doubtful]) > cuts[doubtful, None]
        hidden[doubtful] = reached[doubtful].sum(-1) - visible.sum(-1)
        found[unsettled] = hidden
    return found


def free_ambiguity(tokens: int, key_size: int, value_size: int) -> int:
    """Dimension of attention maps with the same output when queries AND keys may be anything: a generic count.

    Logits of rank k, up to a constant per row, have k·(2n − k − 1) parameters with k = min(key_size, n − 1); the
    output gives n·min(value_size, n − 1) equations. For heads in which every query sees every key.
    """
    rank = min(key_size, tokens - 1)
    return max(0, rank * (2 * tokens - rank - 1) - tokens * min(value_size, tokens - 1))
