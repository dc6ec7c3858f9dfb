"""How much attention can move without any effect: a witness for each row, found by affine scaling.

A witness is another distribution over the same keys with the same output. The mass that it moves is a lower bound on
what can move, not the largest move: `Polytope.farthest` searches longer.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.decompose.value_space import ValueSpace
from thalweg.numerics import double

SAMPLED_ROWS = 8  # of each head, evenly spaced
STEPS = 6
STRIDE = 0.95  # of the way to the first weight that becomes zero
JITTER = 1e-13  # keeps Cholesky factors finite where few keys have weight; the corrections make up for it
CORRECTIONS = 2
CHUNK_ELEMENTS = 2**22  # numbers in the scaled columns of rows that move together: 32 MB


def sampled_rows(queries: int) -> Int[Tensor, " row"]:
    """Evenly spaced rows, first and last included; all rows of a short text."""
    return torch.linspace(0, queries - 1, min(queries, SAMPLED_ROWS)).round().long()


def witnesses(space: ValueSpace, queries: Int[Tensor, " row"], weights: HeadMaps) -> HeadMaps:
    """Move the rows of these queries as far as a few steps of affine scaling lead, without changing their output.

    Each step lowers the total weight of the keys that have lost weight so far, in the first step of the large weights,
    along -x∘(I - P)(x∘c), where x is the row, c selects these keys and P projects onto the columns of x∘[T, 1]. Neither
    the output nor the row sum changes, and weights near zero hardly move, so the step is not cut short by them. A row
    is returned unchanged if it is uniquely determined, or if rounding changed its output or its sum by more than the
    cut, relative to T's largest singular value and the norm of the row.
    """
    start = double(weights)
    matrix, basis, ones = space.matrix, space.basis, space.ones[..., None]
    if space.sinks:  # the sink is one more key without a value, whose weight makes the sum one
        start = torch.cat([start, (1 - start.sum(-1, keepdim=True)).clamp_min(0)], -1)
        matrix, basis = (torch.cat([part, torch.zeros_like(part[:, :1])], 1) for part in (matrix, basis))
        ones = torch.full_like(basis[..., :1], basis.shape[1] ** -0.5)
    columns = torch.cat([basis, ones], -1)  # [head key column]
    step = max(1, CHUNK_ELEMENTS // columns.numel())
    moved = torch.cat([_moved(rows, columns) for rows in start.split(step, 1)], 1)
    change = moved - start
    error = torch.maximum((change @ matrix).norm(dim=-1), change.sum(-1).abs())  # [head row]
    valid = (error <= space.cut * start.norm(dim=-1)) & (space.ambiguity[:, queries] > 0)
    return torch.where(valid[..., None], moved, start)[..., : weights.shape[-1]]


def one_head(space: ValueSpace, head: int) -> ValueSpace:
    """The spaces of one head alone."""
    per_head = ("matrix", "singular_values", "basis", "ones", "rank", "rank_with_ones", "capacity")
    return replace(space, **{name: getattr(space, name)[head : head + 1] for name in per_head})


def moved_mass(weights: HeadMaps, others: HeadMaps) -> Float[Tensor, "head row"]:
    """Total variation between the rows of two maps; a sink takes what is missing from a row."""
    change = others - double(weights)
    return 0.5 * (change.abs().sum(-1) + change.sum(-1).abs())


def _moved(start: HeadMaps, columns: Float[Tensor, "head key column"]) -> HeadMaps:
    rows, cost = start, start
    jitter = JITTER * torch.eye(columns.shape[-1], dtype=columns.dtype)
    for _ in range(STEPS):
        scaled = rows[..., None] * columns[:, None]  # [head row key column]
        gram = scaled.mT @ scaled
        size = (
            gram.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None].clamp_min(torch.finfo(gram.dtype).tiny)
        )  # [head row 1]
        factor = torch.linalg.cholesky(gram / size[..., None] + jitter)
        rest = rows * cost
        for _ in range(1 + CORRECTIONS):
            part = torch.cholesky_solve(((rows * rest) @ columns / size)[..., None], factor)[..., 0]
            rest = rest - rows * (part @ columns.mT)
        direction = -rows * rest
        reach = torch.where(direction < 0, rows / -direction, torch.inf).amin(-1, keepdim=True)
        rows = (rows + STRIDE * torch.where(reach.isfinite(), reach, 0.0) * direction).clamp_min(0)
        cost = (rows < start).to(rows)
    return rows
