"""Frobenius norms of matrices that can only be multiplied, estimated from a few random orthogonal directions.

For a matrix J of `width` columns, k random orthonormal directions v_a yield y_a = J v_a. Then T = (d/k) Σ_a ‖y_a‖² has
the mean ‖J‖²_F and, over all choices of the directions, the variance 2 d (d − k)/k · E (y_a·y_b)² with a ≠ b. The inner
products of the y_a therefore estimate the error without bias and almost independently of T, and the error vanishes when
all d directions are used. An error bar is that standard deviation times Student's t.

Each of several owners (tokens) has its own directions, which serve many matrices at once: `products` takes owners
[direction] and directions [direction width], and returns y as [direction other width].
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from thalweg.errors import ModelError

Products = Callable[
    [Int[Tensor, " direction"], Float[Tensor, "direction width"]], Float[Tensor, "direction other result_width"]
]
ReportProgress = Callable[[int, int], None]  # done, total
Squares = Float[Tensor, "owner other"]

GROUP_SIZE = 6  # directions of an owner that are multiplied together, and whose inner products are taken
CONFIDENCE = 0.95  # that an error bar covers the exact value
QUANTILE = 0.97  # of Student's t: higher than CONFIDENCE, because sampling stops as soon as the bars are short enough
NEGLIGIBLE = 0.1  # share of an even share below which errors are relative to it


@dataclass(frozen=True, eq=False)
class Sketch:
    """Estimated norms, relative error bars of their shares, and directions used per owner."""

    norms: Squares
    errors: Squares
    used: Int[Tensor, " owner"]


def exact_norms(products: Products, owners: int, batch: int, like: Tensor, report: ReportProgress) -> Squares:
    """Norms from all directions of all owners, in batches."""
    squares, width = None, like.shape[-1]
    identity = torch.eye(width, dtype=like.dtype, device=like.device)
    for pairs in torch.arange(owners * width, device=like.device).split(batch):
        sizes = products(pairs // width, identity[pairs % width]).square().sum(-1)  # [direction other]
        squares = sizes.new_zeros(owners, sizes.shape[1]) if squares is None else squares
        squares.index_add_(0, pairs // width, sizes)
        report(int(pairs[-1]) + 1, owners * width)
    assert squares is not None
    _require_finite(squares)
    return squares.sqrt()


def sketched_norms(
    products: Products,
    owners: int,
    batch: int,
    like: Tensor,
    report: ReportProgress,
    *,
    rtol: float,
    seed: int,
    rows_are_owners: bool,
    worth: float,
) -> Sketch | None:
    """Add directions until the error bar of every share is at most `rtol`.

    A share is a norm divided by the sum of its row: that of its owner, or that of one `other` over all owners. Returns
    None as soon as more than the fraction `worth` of all directions seems to be needed: then all of them cost less. The
    same if a bar is unknown, because it overflows.
    """
    width = like.shape[-1]
    if width <= GROUP_SIZE:
        return None
    probes = _Probes(products, owners, batch, like, seed, rows_are_owners)
    wanted = torch.full((owners,), GROUP_SIZE)
    while True:
        probes.add(wanted, report)
        norms, errors, grow = probes.judge(rtol)
        if bool((grow <= 1).all()):
            return Sketch(norms, errors, probes.used)
        enough = torch.where(
            grow <= 1, probes.used, width * probes.used * grow / (width - probes.used + probes.used * grow)
        )
        if not float(enough.mean()) <= worth * width:  # NaN as well
            return None
        wanted = torch.where(grow > 1, _next(probes.used, enough, width), probes.used)


def _next(used: Tensor, enough: Tensor, width: int) -> Tensor:
    """The next number of directions towards `enough`, in whole groups, at most twice as many as before."""
    wanted = torch.minimum(enough, 2.0 * used).div(GROUP_SIZE).ceil().long() * GROUP_SIZE
    return torch.maximum(wanted, used + GROUP_SIZE).clamp_max(width)


class _Probes:
    """The directions used so far and their products."""

    def __init__(
        self, products: Products, owners: int, batch: int, like: Tensor, seed: int, rows_are_owners: bool
    ) -> None:
        self.products, self.batch, self.like, self.width = products, batch, like, like.shape[-1]
        self.rows_are_owners = rows_are_owners
        self.generator = torch.Generator().manual_seed(seed)
        self.frames = [torch.zeros(self.width, 0, dtype=torch.float64) for _ in range(owners)]
        self.squares: Tensor | None = None  # [owner other]
        self.crossed: list[list[Tensor]] = [[] for _ in range(owners)]  # products of pairs, or their sum of squares
        self.pairs = torch.zeros(owners, dtype=torch.long)

    @property
    def used(self) -> Tensor:
        return torch.tensor([frame.shape[1] for frame in self.frames])

    def add(self, wanted: Tensor, report: ReportProgress) -> None:
        """Give every owner as many directions as it wants, a group of each at a time."""
        while bool((wanted > self.used).any()):
            waiting = (wanted > self.used).nonzero().flatten()
            for some in waiting.split(max(1, self.batch // GROUP_SIZE)):
                self._group(some.tolist(), wanted)
                report(int(self.used.sum()), int(wanted.sum()))

    def _group(self, owners: list[int], wanted: Tensor) -> None:
        size = min(min(GROUP_SIZE, int(wanted[owner]) - self.frames[owner].shape[1]) for owner in owners)
        fresh = [self._directions(owner, size) for owner in owners]
        directions = torch.cat(fresh, 1).T.to(self.like)  # [owner·direction width]
        places = torch.tensor(owners, device=self.like.device).repeat_interleave(size)
        products = self.products(places, directions).unflatten(0, (len(owners), size)).transpose(1, 2)
        gram = products @ products.mT  # [owner other direction direction]
        if self.squares is None:
            self.squares = gram.new_zeros(len(self.frames), gram.shape[1])
        self.squares[owners] += gram.diagonal(dim1=-2, dim2=-1).sum(-1)
        above = torch.triu_indices(size, size, 1, device=gram.device)
        for owner, own in zip(owners, gram[..., above[0], above[1]], strict=True):  # [other pair]
            self.crossed[owner].append(own if self.rows_are_owners else own.square().sum(-1, keepdim=True))
            self.pairs[owner] += own.shape[-1]

    def _directions(self, owner: int, count: int) -> Tensor:
        """Random directions that are orthogonal to each other and to the owner's earlier ones."""
        before = self.frames[owner]
        fresh = torch.randn(self.width, count, generator=self.generator, dtype=torch.float64)
        for _ in range(2):  # the second pass removes rounding errors
            fresh = torch.linalg.qr(fresh - before @ (before.T @ fresh))[0]
        self.frames[owner] = torch.cat([before, fresh], 1)
        return fresh

    def _squared(self) -> list[list[Tensor]]:
        return [[part.square() for part in own] for own in self.crossed] if self.rows_are_owners else self.crossed

    def _quantile(self, total: Squares, mean: Squares) -> Squares:
        """Student's t for a variance that is itself estimated, from `pairs` products of k directions.

        The lower the effective rank r of JᵀJ, the more these depend on each other: the mean of their squares has the
        relative variance 2/pairs + 8/(k r) (Hoeffding), and twice its inverse is the number of degrees of freedom.
        """
        from scipy.stats import t as student  # slow to import, and few results need it

        rank = total.square() / (self.width**2 * mean + total.square() / self.width).clamp_min(_tiny(total))
        inverse = 1 / self.pairs.to(total)[:, None] + 4 / (self.used.to(total)[:, None] * rank.clamp_min(1))
        return torch.from_numpy(student.ppf(0.5 + QUANTILE / 2, (1 / inverse).cpu().numpy())).to(total)

    def judge(self, rtol: float) -> tuple[Squares, Squares, Float[Tensor, " owner"]]:
        """Norms, errors of shares, and the factor by which the variance of each owner must fall."""
        assert self.squares is not None
        _require_finite(self.squares)
        used = self.used.to(self.squares)[:, None]  # [owner one]
        total = self.width / used * self.squares
        norms = total.sqrt()
        shares = norms / norms.sum(1 if self.rows_are_owners else 0, keepdim=True).clamp_min(_tiny(norms))
        half = torch.where(total > 0, 0.5 / total, 0.0)  # d log ‖J‖ / d ‖J‖²
        mean = torch.stack([torch.cat(own, 1).sum(1) for own in self._squared()]) / self.pairs.to(half)[:, None]
        factor = self._quantile(total, mean) * (2 * self.width * (self.width - used) / used).sqrt()
        itself = torch.arange(len(norms), device=norms.device)[:, None].expand_as(norms)
        if self.rows_are_owners:
            moves = [torch.cat(own, 1) * scale[:, None] for own, scale in zip(self.crossed, half, strict=True)]
            moves = [move - share @ move for move, share in zip(moves, shares, strict=True)]  # of log share
            errors = factor * torch.stack([move.square().mean(1).sqrt() for move in moves])  # moves: [other pair]
            blamed = itself
        else:
            bars = factor * half * mean.sqrt()  # of log norm
            own, others = ((1 - shares) * bars).square(), (shares * bars).square()
            errors = (own + others.sum(0) - others).clamp_min(0).sqrt()
            blamed = torch.where(
                own >= others.max(0).values, itself, others.argmax(0)
            )  # owner that adds most to the bar
        errors = errors * (shares * shares.shape[int(self.rows_are_owners)] / NEGLIGIBLE).clamp_max(1)
        grow = torch.zeros_like(norms[:, 0])
        grow.scatter_reduce_(0, blamed.flatten(), (errors / rtol).square().flatten(), "amax")
        return norms, errors, grow.cpu()


def _require_finite(squares: Squares) -> None:
    if not squares.isfinite().all():
        name = str(squares.dtype).removeprefix("torch.")
        raise ModelError(
            f"derivatives of the model's states overflow in {name}: its weights are too large"
            + ("" if squares.dtype == torch.float64 else "; load it with dtype='float64'")
        )


def _tiny(tensor: Tensor) -> float:
    return torch.finfo(tensor.dtype).tiny
