"""What their values say of a block's heads, in a few figures and at a small part of a certificate's cost: for corpora.

Nothing is asked of keys, of the order within rows or of the layer as a whole. Where T = V·W_O clearly has full rank,
nothing is without effect in a text that is no longer than a head is wide. In a longer one, where every query sees every
key, the columns of T are made orthonormal by Cholesky's factorisation, U, and the part of a row without effect follows
from what U leaves of it: ‖a‖² − ‖a·U‖². All else goes the way of a certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Block, Capture
from thalweg.decompose.value_space import Bases, Outward, outward_map, value_space
from thalweg.identifiability.sums import Lost, Moments, Sums
from thalweg.numerics import double, tolerance, working
from thalweg.receipt import Check, Receipt

BY_VALUES = ("identifiable", "not identifiable by values")  # what is said of a head
CLEAR = 1e-6  # σ_min/σ_max that is told from rounding after one product, also where a model works in double precision
WELL_CONDITIONED = 1e-2  # σ_min/σ_max from which one factorisation is enough: shares are then known to 1e-6


@dataclass(frozen=True)
class BriefHead:
    """Figures of one head, each as in `Head`; whether keys would narrow an ambiguity down was not asked."""

    layer: int
    head: int
    rank: int
    ambiguity: int
    null_share: float
    null_share_row_sum: float
    pearson: float

    @property
    def verdict(self) -> str:
        return BY_VALUES[self.ambiguity > 0]


@dataclass(frozen=True)
class Brief:
    """What values say of all heads of a capture, and what was checked."""

    heads: tuple[BriefHead, ...]
    receipt: Receipt


def briefs(captures: Sequence[Capture]) -> list[Brief]:
    """What values say of every head of some captures of one model."""
    outward = [outward_map(block) for block in captures[0].blocks]
    return [_brief(capture, outward) for capture in captures]


def _brief(capture: Capture, outward: Sequence[Outward]) -> Brief:
    heads: list[BriefHead] = []
    parities, errors, cuts = [], [], []
    for layer, (block, known) in enumerate(zip(capture.blocks, outward, strict=True)):
        sums = Sums(block.attention.heads)
        basis = _basis(block, known)
        if basis is None:
            space = value_space(block)
            widest = int(space.supports.sum(-1).argmax())
            cut, ranks, ambiguities = space.cut, space.rank[:, widest].tolist(), space.ambiguity.amax(-1).tolist()
            for rows, weights, parity in block.rows():
                sums.add_rows(space, rows, weights, parity)
        else:
            cut, ranks, ambiguities = basis.cut, [basis.rank] * sums.heads, [basis.ambiguity] * sums.heads
            for _, weights, parity in block.rows():
                sums.add(*basis.split(weights), parity, basis.error)
        figures = zip(ranks, ambiguities, *sums.null_shares().tolist(), sums.pearson(), strict=True)
        heads += [BriefHead(layer, head, *found) for head, found in enumerate(figures)]
        parities.append(sums.parity)
        errors.append(sums.error)
        cuts.append(cut)
    checks = {
        **block_checks(capture.blocks, tuple(parities)),
        "effective_output": Check(tuple(errors), 2 * max(cuts)),
    }
    return Brief(tuple(heads), Receipt(checks, {}, ()))


@dataclass(frozen=True, eq=False)
class _Basis:
    """Orthonormal columns that span those of T, all of which count, and last the direction of 1 that they leave out.

    There are none where T's rows are independent: then nothing is without effect.
    """

    rank: int
    cut: float
    ambiguity: int = 0
    columns: Bases | None = None
    error: float = 0.0

    def split(self, weights: HeadMaps) -> tuple[Moments, Lost]:
        """What e = a·U·Uᵀ adds up to, without making it: Σe² = Σae = ‖a·U‖², and what is along 1 is lost no more."""
        if self.columns is None:
            return torch.zeros(6, len(weights), dtype=torch.float64), torch.zeros(2, len(weights), dtype=torch.float64)
        exact = double(weights)
        square = _square(exact)
        shown = exact @ self.columns  # [head row column]
        kept, along = _square(shown[..., :-1]), _square(shown[..., -1:])
        made = (shown.sum(1) * self.columns.sum(1))[:, :-1].sum(1)
        count = torch.full_like(square, exact[0].numel())
        lost = (square - kept).clamp_min(0)
        more = (lost - along).clamp_min(0) if self.ambiguity else torch.zeros_like(lost)
        return torch.stack([count, exact.sum((1, 2)), made, square, kept, kept]), torch.stack([lost, more])


def _basis(block: Block, outward: Outward) -> _Basis | None:
    """None where queries see different keys of a long text, or where the rank is not clear at first sight."""
    attention = block.attention
    keys, width = attention.value.shape[1], outward.factor.shape[-1]
    visible = attention.visible()
    if keys > width and (attention.has_sinks or not bool(visible.all())):
        return None
    matrix = double(attention.values()) @ outward.factor  # V·L, which stands for T: [head key column]
    cut = tolerance(working(attention.value.dtype), max(keys, width))
    gram = matrix @ matrix.mT if keys <= width else matrix.mT @ matrix
    factor, failed = torch.linalg.cholesky_ex(gram)  # F·Fᵀ
    if failed.any():
        return None
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor[0]), dtype=factor.dtype), upper=False)
    size = gram.diagonal(dim1=-2, dim2=-1).sum(-1)  # at least σ_max², at most as often as there are columns
    smallest = (size * _square(inverse)).rsqrt()  # ‖F⁻¹‖² is at least σ_min⁻², so this is at most σ_min/σ_max
    if not bool((smallest > max(cut, CLEAR)).all()):
        return None
    if keys <= width:  # if all rows of T are independent, so are those that any query sees
        return _Basis(int(visible.sum(-1).max()), cut)
    columns = matrix @ inverse.mT
    if bool((smallest < WELL_CONDITIONED).any()):  # rounding left the columns less than orthogonal
        again, _ = torch.linalg.cholesky_ex(columns.mT @ columns)
        columns = torch.linalg.solve_triangular(again.mT, columns, upper=True, left=False)
    even = torch.full((len(matrix), keys, 1), keys**-0.5, dtype=matrix.dtype)
    ones = even - columns @ (columns.mT @ even)
    left_out = ones.norm(dim=1)[:, 0]
    if not bool((smallest * left_out > max(cut, CLEAR)).all()):  # as in `value_space`: 1 may be among T's columns
        return None
    missed = matrix - columns @ (columns.mT @ matrix)
    error = float((torch.linalg.matrix_norm(missed) / (size / width).sqrt()).max())
    return _Basis(width, cut, keys - width - 1, torch.cat([columns, ones / left_out[:, None, None]], -1), error)


def _square(parts: Float[Tensor, "head row part"]) -> Float[Tensor, " head"]:
    return torch.linalg.vector_norm(parts, dim=(1, 2)).square()
