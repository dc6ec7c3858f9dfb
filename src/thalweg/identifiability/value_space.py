"""What a head's values can tell apart: the rank and the left null space of T = V·W_O, and effective attention.

A head writes A·T. Whatever a row of A has in the left null space of T has no effect, and could be there or not. Rows
of attention sum to one, so that an alternative row differs from the original by a vector in the left null space of
[T, 1]. Both spaces are found from an n × value_size matrix: with W_O·W_Oᵀ = L·Lᵀ, T and V·L have the same singular
values and the same left null space.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.record import Block
from thalweg.errors import ModelError
from thalweg.numerics import double, tolerance

Matrices = Float[Tensor, "head key column"]
Bases = Float[Tensor, "head key direction"]
Sizes = Float[Tensor, "head direction"]
GRAM_ELEMENTS = 2**22  # numbers in the Gram matrices of rows that are solved at once: 32 MB


@dataclass(frozen=True, eq=False)
class ValueSpace:
    """The spaces of one block's heads, in double precision.

    - `matrix` is V·L divided by its largest singular value, `size`, which makes `singular_values` relative. What is at
      most `cut`, the rounding of the model's precision, counts as zero.
    - `basis` has orthonormal columns that span T's columns, zero beyond the rank; `ones` is the direction of 1 that
      they leave out, zero where they leave out nothing.
    - `supports` are the keys that each query sees; `everything` says that all see all.
    - `rank` is that of the rows of T that a query sees, `capacity` that of W_O, which no rank exceeds.
    - `sinks` says that a row may sum to anything up to one, because a sink takes the rest: then only T counts.
    """

    matrix: Matrices
    size: Float[Tensor, " head"]
    singular_values: Sizes
    cut: float
    basis: Bases
    ones: Float[Tensor, "head key"]
    supports: Bool[Tensor, "query key"]
    everything: bool
    rank: Int[Tensor, "head query"]
    rank_with_ones: Int[Tensor, "head query"]
    capacity: Int[Tensor, " head"]
    sinks: bool

    @property
    def free(self) -> Int[Tensor, "head query"]:
        """Dimension of the left null space of T, over the keys that each query sees (P1)."""
        return self.supports.sum(-1) - self.rank

    @property
    def ambiguity(self) -> Int[Tensor, "head query"]:
        """Dimension of what a row could change by and stay a distribution with the same output."""
        return self.free if self.sinks else self.supports.sum(-1) - self.rank_with_ones

    def gap(self) -> Float[Tensor, " head"]:
        """How clear the cut is: the smallest singular value that counts over the largest that does not."""
        counted = (self.singular_values > self.cut).sum(-1)
        padded = torch.nn.functional.pad(self.singular_values, (1, 1))
        above = padded.gather(1, counted[:, None])[:, 0]
        below = padded.gather(1, counted[:, None] + 1)[:, 0]
        return torch.where(counted == 0, torch.inf, above / below)  # nothing below: infinity

    def columns(self, head: int, query: int) -> Float[Tensor, "seen column"]:
        """An orthonormal basis of what the output and the sum of one row show, over the keys that it sees.

        A sink is one more key at the end, whose value is zero and whose weight makes the sum one.
        """
        matrix = self.matrix[head, self.supports[query]]
        if self.sinks:
            matrix = torch.nn.functional.pad(matrix, (0, 0, 0, 1))
        even = torch.full_like(matrix[:, :1], self.matrix.shape[1] ** -0.5)
        left, values, _ = torch.linalg.svd(torch.cat([matrix, even], 1), full_matrices=False)
        return left[:, values > self.cut]

    def effective(self, rows: slice, weights: HeadMaps, row_sum: bool = False) -> HeadMaps:
        """Attention without its null component: A·T·T⁺, or with `row_sum` A·[T, 1]·[T, 1]⁺, whose rows sum to one.

        Entries may be negative, and without `row_sum` rows do not sum to one. Rows that have no null component stay
        as they are, to the last digit.
        """
        row_sum = row_sum and not self.sinks
        counted = self.rank_with_ones if row_sum else self.rank
        settled = (self.supports.sum(-1) == counted)[:, rows].to(weights.device)  # [head row]
        if settled.all():
            return weights
        basis = torch.cat([self.basis, self.ones[..., None]], -1) if row_sum else self.basis
        if self.everything:
            seen = basis.to(weights)
            projected = (weights @ seen) @ seen.mT
        else:
            projected = torch.stack(
                [self._by_row(weights[head], basis[head], counted[head], rows) for head in range(len(weights))]
            )
        return torch.where(settled[..., None], weights, projected) if settled.any() else projected

    def _by_row(
        self, weights: Float[Tensor, "row key"], basis: Float[Tensor, "key column"], counted: Tensor, rows: slice
    ) -> Float[Tensor, "row key"]:
        """Rows that see different keys: a·U_S·(U_SᵀU_S)⁺·U_Sᵀ over the keys S of each row that is not settled."""
        seen, counted = self.supports[rows], counted[rows]
        basis = basis[:, basis.any(0)]
        if basis.shape[1] == 0:
            return torch.zeros_like(weights)
        exact = double(weights)
        projected = exact.clone()
        step = max(1, GRAM_ELEMENTS // basis.shape[1] ** 2)
        for first in range(0, len(exact), step):
            part = slice(first, first + step)
            free = seen[part].sum(-1) > counted[part]
            if free.any():
                grams = _grams(basis, seen[part])[free]  # [row column column]
                solved = _solved(grams, exact[part][free] @ basis, counted[part][free])
                projected[part][free] = (solved @ basis.mT) * seen[part][free]
        return projected.to(weights)


def value_space(block: Block) -> ValueSpace:
    """The spaces of a block's values as this pass computed them, biases included."""
    attention = block.attention
    if not attention.heads_see_alike():
        raise ModelError(f"the heads of {block.name!r} see different keys, which is not known here")
    values = double(attention.values())
    supports = attention.visible().cpu()
    dtype = attention.value.dtype
    cut = tolerance(dtype, max(values.shape[1:]))
    outward, capacity = _outward(double(block.projection), cut)
    matrix = values @ outward  # [head key column]
    left, found = _factors(matrix, dtype)
    size = found[:, 0]
    unit = torch.where(size > 0, size, 1.0)
    found = found / unit[:, None]
    matrix = matrix / unit[:, None, None]
    basis = left * (found > cut)[:, None, :]
    even = torch.full(matrix.shape[:2], matrix.shape[1] ** -0.5, dtype=torch.float64)
    everything = bool(supports.all())
    whole = (found > cut).sum(-1)  # ranks over all keys
    ones = even - ((even[:, None] @ basis) @ basis.mT)[:, 0]
    left_out = ones.norm(dim=-1)
    # the smallest singular value of [M, 1] is at least a third of σ_r times the length that M's columns leave of 1
    smallest = torch.where(found > cut, found, torch.inf).amin(-1)
    if bool((smallest * left_out > 3 * cut).all()):
        whole_with_ones = whole + 1
    else:
        whole_with_ones = (_values(torch.cat([matrix, even[..., None]], -1), dtype) > cut).sum(-1)
    if everything:
        rank = whole[:, None].expand(-1, len(supports))
        rank_with_ones = whole_with_ones[:, None].expand(-1, len(supports))
    else:
        rank = torch.stack([row_ranks(one, supports, cut) for one in matrix])
        with_ones = torch.cat([matrix, even[..., None]], -1)
        rank_with_ones = torch.stack([row_ranks(one, supports, cut) for one in with_ones])
    ones = torch.where((whole_with_ones > whole)[:, None], ones / left_out[:, None], 0.0)
    return ValueSpace(
        matrix, size, found, cut, basis, ones, supports, everything, rank, rank_with_ones, capacity, attention.has_sinks
    )


def row_ranks(
    matrix: Float[Tensor, "key column"], supports: Bool[Tensor, "query key"], cut: float
) -> Int[Tensor, " query"]:
    """The rank of the rows of `matrix` that each query sees; a singular value counts when it is above `cut`.

    Rank only grows with the rows that are seen. A run of queries is settled when the rows that all of them see
    have the same rank as those that any of them sees, or when the latter are independent; else it is halved.
    """
    ranks = torch.empty(len(supports), dtype=torch.int64)
    known: dict[bytes, int] = {}

    def rank(seen: Tensor) -> int:
        name = seen.numpy().tobytes()
        if name not in known:
            known[name] = int((torch.linalg.svdvals(matrix[seen]) > cut).sum()) if seen.any() else 0
        return known[name]

    waiting = [slice(0, len(supports))]
    while waiting:
        run = waiting.pop()
        group = supports[run]
        most = rank(union := group.any(0))
        if most == union.sum():
            ranks[run] = group.sum(1)
        elif rank(group.all(0)) == most:
            ranks[run] = most
        else:
            middle = (run.start + run.stop) // 2
            waiting += [slice(run.start, middle), slice(middle, run.stop)]
    return ranks


def _outward(
    projection: Float[Tensor, "head value_size width"], cut: float
) -> tuple[Float[Tensor, "head value_size value_size"], Int[Tensor, " head"]]:
    """L with L·Lᵀ = W_O·W_Oᵀ, so that V·L stands for T, and the rank of W_O; by Cholesky where it is clearly full."""
    gram = projection @ projection.mT
    factor, failed = torch.linalg.cholesky_ex(gram)
    if not failed.any():
        inverse = torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1).sum(-1)  # at least σ_min⁻²
        size = gram.diagonal(dim1=-2, dim2=-1).sum(-1)  # at least σ_max²
        if bool((1e4 * max(cut, 1e-8) ** 2 * size * inverse < 1).all()):
            return factor, torch.full((len(gram),), gram.shape[-1])
    factor = torch.linalg.qr(projection.mT, mode="r").R.mT  # W_Oᵀ = Q·R
    sizes = torch.linalg.svdvals(factor)
    return factor, (sizes > cut * sizes[:, :1]).sum(-1)


def _factors(matrix: Matrices, dtype: torch.dtype) -> tuple[Bases, Sizes]:
    """Left singular vectors and singular values, largest first.

    From the Gram matrix, several times faster: its error, 1e-8 of the largest singular value, is far below
    the rounding of a model in single or half precision. One in double precision gets the full decomposition.
    """
    if dtype == torch.float64 or matrix.shape[1] < matrix.shape[2]:
        left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
        return left, values
    squares, right = torch.linalg.eigh(matrix.mT @ matrix)
    values = squares.clamp_min(0).sqrt().flip(-1)
    left = matrix @ right.flip(-1) / values.clamp_min(torch.finfo(values.dtype).tiny)[:, None, :]
    return left, values


def _values(matrix: Matrices, dtype: torch.dtype) -> Sizes:
    """Singular values alone, in the same way."""
    if dtype == torch.float64 or matrix.shape[1] < matrix.shape[2]:
        return torch.linalg.svdvals(matrix)
    return torch.linalg.eigvalsh(matrix.mT @ matrix).clamp_min(0).sqrt().flip(-1)


def _grams(basis: Float[Tensor, "key column"], seen: Bool[Tensor, "row key"]) -> Float[Tensor, "row column column"]:
    """U_SᵀU_S of each row, from that of the row before: only keys that come or go are added or taken away."""
    change = seen.to(basis.dtype).diff(dim=0, prepend=torch.zeros_like(seen[:1], dtype=basis.dtype))
    row, key = change.nonzero(as_tuple=True)
    terms = change[row, key, None, None] * basis[key, :, None] * basis[key, None, :]
    width = basis.shape[1]
    steps = torch.zeros(len(seen), width, width, dtype=basis.dtype).index_add_(0, row, terms)
    return steps.cumsum(0)


def _solved(
    grams: Float[Tensor, "row column column"], shown: Float[Tensor, "row column"], counted: Int[Tensor, " row"]
) -> Float[Tensor, "row column"]:
    """grams⁺·shown, each row's rank being known; Cholesky where it is full and well conditioned."""
    width = grams.shape[1]
    factor, failed = torch.linalg.cholesky_ex(grams)
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    poor = (failed != 0) | (counted < width) | ~(diagonal.amin(-1) > 1e-4)
    solved = torch.zeros_like(shown)
    good = ~poor
    solved[good] = torch.cholesky_solve(shown[good][..., None], factor[good])[..., 0]
    if poor.any():
        squares, vectors = torch.linalg.eigh(grams[poor])
        kept = torch.arange(width) >= width - counted[poor][:, None]  # eigh sorts upwards
        inverse = torch.where(kept & (squares > 0), 1 / squares.clamp_min(torch.finfo(squares.dtype).tiny), 0.0)
        solved[poor] = (vectors @ (inverse[..., None] * (vectors.mT @ shown[poor][..., None])))[..., 0]
    return solved
