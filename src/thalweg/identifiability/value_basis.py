"""Orthonormal bases of the values of a block, by Cholesky factorisation, where their rank is clear.

If T = V·W_O clearly has full rank, a text with no more tokens than a head has dimensions leaves no part of attention
without effect. In a longer text where every query sees every key, the columns of T are made orthonormal (U), and the
part of a row a without effect has the squared norm ‖a‖² − ‖a·U‖².
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.record import Block
from thalweg.decompose.value_space import Bases, Outward
from thalweg.identifiability.effect_sums import Lost, Moments
from thalweg.numerics import double, tolerance, working

CLEAR = 1e-6  # smallest σ_min/σ_max that is safe from rounding after one product, also in double precision
WELL_CONDITIONED = 1e-2  # σ_min/σ_max from which one factorisation is enough: shares are then exact to 1e-6


@dataclass(frozen=True, eq=False)
class ValueBasis:
    """Orthonormal columns U that span those of T and, as the last one, the direction of 1 outside their span.

    `columns` is None where T's rows are independent, so that all of attention has an effect.
    """

    rank: int
    cut: float
    ambiguity: int = 0
    columns: Bases | None = None
    error: float = 0.0

    def split(self, weights: HeadMaps) -> tuple[Moments, Lost]:
        """Moments of e = a·U·Uᵀ without computing it: Σe² = Σae = ‖a·U‖²; the row sum keeps the part along 1."""
        if self.columns is None:
            return torch.zeros(6, len(weights), dtype=torch.float64), torch.zeros(2, len(weights), dtype=torch.float64)
        exact = double(weights)
        square = _square(exact)
        shown = exact @ self.columns  # [head row column]
        kept, along = _square(shown[..., :-1]), _square(shown[..., -1:])
        effective_sum = (shown.sum(1) * self.columns.sum(1))[:, :-1].sum(1)
        count = torch.full_like(square, exact[0].numel())
        lost = (square - kept).clamp_min(0)
        lost_row_sum = (lost - along).clamp_min(0) if self.ambiguity else torch.zeros_like(lost)
        moments = torch.stack([count, exact.sum((1, 2)), effective_sum, square, kept, kept])
        return moments, torch.stack([lost, lost_row_sum])


def clear_basis(block: Block, outward: Outward) -> ValueBasis | None:
    """The basis of T where it clearly has full rank and, in a long text, all queries see all keys; None elsewhere."""
    attention = block.attention
    keys, width = attention.value.shape[1], outward.factor.shape[-1]
    visible = attention.visible()
    if keys > width and (attention.has_sinks or not bool(visible.all())):
        return None
    matrix = double(attention.values()) @ outward.factor  # V·L, with the same Gram matrix as T: [head key column]
    cut = tolerance(working(attention.value.dtype), max(keys, width))
    gram = matrix @ matrix.mT if keys <= width else matrix.mT @ matrix
    factor, failed = torch.linalg.cholesky_ex(gram)  # F·Fᵀ
    if failed.any():
        return None
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor[0]), dtype=factor.dtype), upper=False)
    size = gram.diagonal(dim1=-2, dim2=-1).sum(-1)  # between σ_max² and σ_max² times the number of columns
    smallest = (size * _square(inverse)).rsqrt()  # ‖F⁻¹‖² is at least σ_min⁻², so this is at most σ_min/σ_max
    if not bool((smallest > max(cut, CLEAR)).all()):
        return None
    if keys <= width:  # if all rows of T are independent, so are those visible to any query
        return ValueBasis(int(visible.sum(-1).max()), cut)
    columns = matrix @ inverse.mT
    if bool((smallest < WELL_CONDITIONED).any()):  # rounding left the columns not quite orthogonal
        again, _ = torch.linalg.cholesky_ex(columns.mT @ columns)
        columns = torch.linalg.solve_triangular(again.mT, columns, upper=True, left=False)
    even = torch.full((len(matrix), keys, 1), keys**-0.5, dtype=matrix.dtype)
    ones = even - columns @ (columns.mT @ even)
    left_out = ones.norm(dim=1)[:, 0]
    if not bool((smallest * left_out > max(cut, CLEAR)).all()):  # 1 may lie in the span of T's columns
        return None
    missed = matrix - columns @ (columns.mT @ matrix)
    error = float((torch.linalg.matrix_norm(missed) / (size / width).sqrt()).max())
    return ValueBasis(width, cut, keys - width - 1, torch.cat([columns, ones / left_out[:, None, None]], -1), error)


def _square(parts: Float[Tensor, "head row part"]) -> Float[Tensor, " head"]:
    return torch.linalg.vector_norm(parts, dim=(1, 2)).square()
