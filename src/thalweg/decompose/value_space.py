"""Rank and left null space of a head's values T = V·W_O, and effective attention.

A head writes A·T. The component of a row of A in the left null space of T has no effect. Rows of attention sum to one,
so an alternative row differs from the original by a vector in the left null space of [T, 1]. Both spaces are computed
from an n × value_size matrix: with W_O·W_Oᵀ = L·Lᵀ, T and V·L have the same singular values and left null space.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from thalweg.axes import HeadMaps
from thalweg.capture.record import Block
from thalweg.errors import ModelError
from thalweg.numerics import double, tolerance, working

Matrices = Float[Tensor, "head key column"]
Bases = Float[Tensor, "head key direction"]
Sizes = Float[Tensor, "head direction"]
SMALLEST_PIVOT = 1e-4  # of a row's Gram matrix that counts as well conditioned
GRAM_ELEMENTS = 2**22  # numbers in the Gram matrices of rows solved at once: 32 MB


@dataclass(frozen=True, eq=False)
class Outward:
    """A factor L with L·Lᵀ = W_O·W_Oᵀ, and W_O's rank, for each head. Both are the same for every input."""

    factor: Float[Tensor, "head value_size value_size"]
    rank: Int[Tensor, " head"]


@dataclass(frozen=True, eq=False)
class ValueSpace:
    """The spaces of one block's heads, in double precision.

    - `matrix` is V·L divided by its largest singular value, which makes `singular_values` relative. Those of at most
      `cut` count as zero. The values are exactly those the model multiplies, so `cut` reflects single precision, for
      models in half precision too. For a row the cut is relative to the largest value over the keys it sees.
    - `basis` has orthonormal columns that span T's columns, zero beyond the rank; `ones` is the direction of 1 outside
      their span, zero if there is none.
    - `supports` are the keys that each query sees; `everything` is True if every query sees every key.
    - `rank` is that of the rows of T that a query sees, `capacity` that of W_O, which no rank exceeds.
    - `sinks` is True if rows may sum to less than one, because a sink takes the rest: then only T counts.
    """

    matrix: Matrices
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
        """Dimension of the left null space of T, over the keys that each query sees (Brunner et al.)."""
        return self.supports.sum(-1) - self.rank

    @property
    def ambiguity(self) -> Int[Tensor, "head query"]:
        """Dimension of the changes of a row that keep it a distribution with the same output."""
        return self.free if self.sinks else self.supports.sum(-1) - self.rank_with_ones

    def gap(self) -> Float[Tensor, " head"]:
        """Gap at the cut: the smallest singular value that counts over the largest that does not."""
        counted = (self.singular_values > self.cut).sum(-1)
        padded = F.pad(self.singular_values, (1, 1))
        above = padded.gather(1, counted[:, None])[:, 0]
        below = padded.gather(1, counted[:, None] + 1)[:, 0]
        return torch.where(counted == 0, torch.inf, above / below)  # nothing below: infinity

    def columns(self, head: int, query: int, row_sum: bool = True) -> Float[Tensor, "seen column"]:
        """An orthonormal basis of the columns of T, or of [T, 1] with `row_sum`, over the keys that one row sees.

        A sink is one more key at the end, whose value is zero and whose weight makes the sum one.
        """
        matrix = self.matrix[head, self.supports[query]]
        if not row_sum:
            left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
            return left[:, values > self.cut * values[:1]]
        size = torch.linalg.matrix_norm(matrix, 2) if len(matrix) else matrix.new_zeros(())
        if self.sinks:
            matrix = F.pad(matrix, (0, 0, 0, 1))
        even = torch.full_like(matrix[:, :1], len(matrix) ** -0.5)
        left, values, _ = torch.linalg.svd(matrix - even @ (even.mT @ matrix), full_matrices=False)
        return torch.cat([even, left[:, values > self.cut * size]], 1)

    def effective(self, rows: slice, weights: HeadMaps, row_sum: bool = False) -> HeadMaps:
        """Attention without its null-space component: A·T·T⁺, or with `row_sum` A·[T, 1]·[T, 1]⁺.

        Entries may be negative; rows sum to one only with `row_sum`. Rows without a null-space component are returned
        unchanged, to the last digit.
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
            heads = range(len(weights))
            projected = torch.stack([self._by_row(h, weights[h], basis[h], rows, row_sum) for h in heads])
        return torch.where(settled[..., None], weights, projected) if settled.any() else projected

    def _by_row(
        self, head: int, weights: Float[Tensor, "row key"], basis: Tensor, rows: slice, row_sum: bool
    ) -> Tensor:
        """Rows that see different keys: a·U_S·(U_SᵀU_S)⁻¹·U_Sᵀ over the keys S of each row with free dimensions.

        Where U_S is rank-deficient, or nearly so, a basis of the row's own columns is computed instead.
        """
        counted = (self.rank_with_ones if row_sum else self.rank)[head, rows]
        seen = self.supports[rows]
        basis = basis[:, basis.any(0)]
        exact = double(weights)
        projected = exact.clone()
        step = max(1, GRAM_ELEMENTS // max(1, basis.shape[1]) ** 2)
        # normal equations lose ε / pivot² of double precision, which must stay below the cut
        smallest_pivot = max(SMALLEST_PIVOT, (16 * torch.finfo(torch.float64).eps / self.cut) ** 0.5)
        first_row = rows.indices(len(self.supports))[0]
        for first in range(0, len(exact), step):
            part = slice(first, first + step)
            free = (seen[part].sum(-1) > counted[part]).nonzero()[:, 0] + first
            if not len(free):
                continue
            grams = _grams(basis, seen[part])[free - first]  # [row column column]
            factor, failed = torch.linalg.cholesky_ex(grams)
            clear = (failed == 0) & (counted[free] == basis.shape[1])
            if basis.shape[1]:
                clear &= factor.diagonal(dim1=-2, dim2=-1).amin(-1) > smallest_pivot
            good = free[clear]
            solved = torch.cholesky_solve((exact[good] @ basis)[..., None], factor[clear])[..., 0]
            projected[good] = (solved @ basis.mT) * seen[good]
            for row in free[~clear].tolist():
                own = self.columns(head, first_row + row, row_sum)
                projected[row, seen[row]] = (exact[row, seen[row]] @ own) @ own.mT
        return projected.to(weights)


def value_space(block: Block) -> ValueSpace:
    """The spaces of a block's values of this pass, biases included."""
    attention = block.attention
    if not attention.heads_share_mask():
        raise ModelError(f"heads of {block.name!r} have different masks, which is not supported")
    values = double(attention.values())
    supports = attention.visible().cpu()
    dtype = working(attention.value.dtype)
    cut = tolerance(dtype, max(values.shape[1:]))
    outward = outward_map(block)
    matrix = values @ outward.factor  # [head key column]
    left, sizes = _factors(matrix, dtype)
    unit = torch.where(sizes[:, :1] > 0, sizes[:, :1], 1.0)
    relative, matrix = sizes / unit, matrix / unit[..., None]
    counted = relative > cut
    basis = left * counted[:, None, :]
    even = torch.full(matrix.shape[:2], matrix.shape[1] ** -0.5, dtype=torch.float64)
    ones = even - ((even[:, None] @ basis) @ basis.mT)[:, 0]
    outside = ones.norm(dim=-1)
    full_rank, full_rank_with_ones = _ranks_over_all_keys(matrix, relative, cut, outside, dtype)
    everything = bool(supports.all())
    if everything:
        rank = full_rank[:, None].expand(-1, len(supports))
        rank_with_ones = full_rank_with_ones[:, None].expand(-1, len(supports))
    else:
        ranks = [row_ranks(head_matrix, supports, cut, dtype) for head_matrix in matrix]
        rank, rank_with_ones = (torch.stack(per_head) for per_head in zip(*ranks, strict=True))
    ones = torch.where((full_rank_with_ones > full_rank)[:, None], ones / outside[:, None], 0.0)
    return ValueSpace(
        matrix=matrix,
        singular_values=relative,
        cut=cut,
        basis=basis,
        ones=ones,
        supports=supports,
        everything=everything,
        rank=rank,
        rank_with_ones=rank_with_ones,
        capacity=outward.rank,
        sinks=attention.has_sinks,
    )


def _ranks_over_all_keys(
    matrix: Matrices, relative: Sizes, cut: float, outside: Float[Tensor, " head"], dtype: torch.dtype
) -> tuple[Int[Tensor, " head"], Int[Tensor, " head"]]:
    """rank(T) and rank([T, 1]) of each head, `outside` being the size of 1's part outside T's columns.

    rank([T, 1]) is one more than that of T's differences to its mean row, whose σ_r ≥ σ_r(T) · outside.
    """
    rank = (relative > cut).sum(-1)
    smallest = torch.where(relative > cut, relative, torch.inf).amin(-1)
    if bool((smallest * outside > cut).all()):
        return rank, rank + 1
    return rank, 1 + (singular_values(matrix - matrix.mean(1, keepdim=True), dtype) > cut).sum(-1)


def row_ranks(
    matrix: Float[Tensor, "key column"],
    supports: Bool[Tensor, "query key"],
    cut: float,
    dtype: torch.dtype = torch.float64,
) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]]:
    """The rank of the rows of `matrix` that each query sees, without and with a column of ones beside them.

    A singular value counts when it is more than `cut` of the largest of these rows. rank([T, 1]) is one more than
    the rank of the differences to any of the rows. Singular values only grow with the number of rows: the rank of a run
    of queries is known if the keys that all of them see and the keys that any of them sees bound it from both sides,
    or if the latter are independent; otherwise the run is halved. Each set of keys is decomposed once.
    """
    known: dict[tuple[bytes, int | None], Sizes] = {}

    def sizes(seen: Bool[Tensor, " key"], reference: int | None = None) -> Float[Tensor, " direction"]:
        name = (seen.numpy().tobytes(), reference)
        if name not in known:
            rows = matrix[seen] if reference is None else matrix[seen] - matrix[reference]
            known[name] = singular_values(rows, dtype)
        return known[name]

    ranks = torch.zeros(2, len(supports), dtype=torch.int64)
    waiting = [(with_ones, slice(0, len(supports))) for with_ones in (False, True)]
    while waiting:
        with_ones, run = waiting.pop()
        group = supports[run]
        inner, outer = group.all(0), group.any(0)
        if not outer.any():
            continue
        if inner.any():
            reference = int(inner.int().argmax()) if with_ones else None
            least, most = sizes(inner)[:1], sizes(outer)[:1]
            larger = sizes(outer, reference)
            if int((larger > cut * most).sum()) + with_ones == int(outer.sum()):
                ranks[int(with_ones), run] = group.sum(1)
                continue
            fewest = int((sizes(inner, reference) > cut * most).sum()) + with_ones
            if fewest == int((larger > cut * least).sum()) + with_ones:
                ranks[int(with_ones), run] = fewest
                continue
        middle = (run.start + run.stop) // 2
        waiting += [(with_ones, slice(run.start, middle)), (with_ones, slice(middle, run.stop))]
    return ranks[0], ranks[1]


def outward_map(block: Block) -> Outward:
    """L by Cholesky factorisation where the rank of W_O is clearly full, otherwise from a QR factorisation of W_Oᵀ."""
    projection = double(block.projection)  # [head value_size width]
    cut = tolerance(working(block.attention.value.dtype), projection.shape[1])
    gram = projection @ projection.mT
    factor, failed = torch.linalg.cholesky_ex(gram)
    if not failed.any():
        inverse = torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1).sum(-1)  # at least σ_min⁻²
        size = gram.diagonal(dim1=-2, dim2=-1).sum(-1)  # at least σ_max²
        if bool((1e4 * max(cut, 1e-8) ** 2 * size * inverse < 1).all()):
            return Outward(factor, torch.full((len(gram),), gram.shape[-1]))
    factor = torch.linalg.qr(projection.mT, mode="r").R.mT  # W_Oᵀ = Q·R
    sizes = torch.linalg.svdvals(factor)
    return Outward(factor, (sizes > cut * sizes[:, :1]).sum(-1))


def _factors(matrix: Matrices, dtype: torch.dtype) -> tuple[Bases, Sizes]:
    """Left singular vectors and singular values, largest first.

    They come from the Gram matrix, which is several times faster: its error, 1e-8 of the largest singular value, is
    far below the rounding of a model in single or half precision. Double precision gets the full decomposition.
    """
    if dtype == torch.float64:
        left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
        return left, values
    short = matrix.shape[1] < matrix.shape[2]
    squares, vectors = torch.linalg.eigh(matrix @ matrix.mT if short else matrix.mT @ matrix)
    values, vectors = squares.clamp_min(0).sqrt().flip(-1), vectors.flip(-1)
    if short:
        return vectors, values
    return matrix @ vectors / values.clamp_min(torch.finfo(values.dtype).tiny)[:, None, :], values


def singular_values(
    matrix: Float[Tensor, "*heads key column"], dtype: torch.dtype
) -> Float[Tensor, "*heads direction"]:
    """Singular values alone, by the same rule as `_factors`."""
    if dtype == torch.float64:
        return torch.linalg.svdvals(matrix)
    gram = matrix @ matrix.mT if matrix.shape[-2] < matrix.shape[-1] else matrix.mT @ matrix
    return torch.linalg.eigvalsh(gram).clamp_min(0).sqrt().flip(-1)


def _grams(basis: Float[Tensor, "key column"], seen: Bool[Tensor, "row key"]) -> Float[Tensor, "row column column"]:
    """U_SᵀU_S of each row, updated from the row before by the keys that enter or leave."""
    change = seen.to(basis.dtype).diff(dim=0, prepend=torch.zeros_like(seen[:1], dtype=basis.dtype))
    row, key = change.nonzero(as_tuple=True)
    terms = change[row, key, None, None] * basis[key, :, None] * basis[key, None, :]
    width = basis.shape[1]
    steps = torch.zeros(len(seen), width, width, dtype=basis.dtype).index_add_(0, row, terms)
    return steps.cumsum(0)
