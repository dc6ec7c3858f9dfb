"""Norms of the blocks ∂e_i/∂x_j of the Jacobian: how strongly a hidden state depends on an earlier one.

The model's own pass runs again with a zero ε added to the earlier states, and is differentiated with respect to ε.
Forward mode pushes a direction of one source through all layers and reaches all receivers at once; reverse mode pulls
a direction of one receiver in one layer back to all sources. The pass itself is computed once for a batch of
directions. For exact norms it is folded first where that saves time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.capture.record import Capture
from thalweg.capture.target import Start
from thalweg.decompose.contributions import shares
from thalweg.decompose.folded import fold
from thalweg.decompose.nudge import Nudge
from thalweg.decompose.sketch import NEGLIGIBLE, Products, ReportProgress, exact_norms, sketched_norms
from thalweg.errors import InputError, ModelError
from thalweg.numerics import working
from thalweg.progress import progress

NormKind = Literal["frobenius", "spectral"]
FOLDED_COST = 1 / 3  # share of all directions above which folding and computing all of them is cheaper
BATCH_ELEMENTS = 2**25  # numbers in a batch of directions: 128 MB in float32


@dataclass(frozen=True, eq=False)
class Jacobians:
    """Norms of the blocks, and half widths of the error bars of their shares, relative to the shares.

    A share is a norm divided by its row's sum. Where it is below a tenth of an even share, its error is relative to
    that tenth. Errors are zero if nothing was sketched. Directions are counted per token.
    """

    norms: Float[Tensor, "layer target source"]
    errors: Float[Tensor, "layer target source"]
    most_directions: int
    mean_directions: float
    assumed: tuple[str, ...]

    def shares(self, targets: Sequence[int]) -> tuple[Float[Tensor, "layer target source"], int]:
        """Rows divided by their sums, and the number of rows without any derivative, which stay with their target."""
        own = torch.tensor(targets, device=self.norms.device).repeat(len(self.norms))
        rows, empty = shares(self.norms.flatten(0, 1), own)
        return rows.view_as(self.norms), empty

    def absolute(self, rows: Float[Tensor, "layer target source"]) -> Float[Tensor, "layer target source"]:
        """Half widths of the error bars of the shares themselves."""
        return self.errors * rows.clamp_min(NEGLIGIBLE / rows.shape[-1])


def jacobians(
    capture: Capture,
    *,
    start: Start = "embeddings",
    layer: int = -1,
    rows: Sequence[int] | None = None,
    norm: NormKind = "frobenius",
    rtol: float | None = 0.05,
    seed: int = 0,
) -> Jacobians:
    """‖∂e_i/∂x_j‖ of every layer from the embedding output (layer 0) up to `layer`.

    With `rows` only these receivers, in the last layer only. x is the embedding output, or with start="layer" the
    states of the layer before. The Frobenius norm is sketched to a relative error of `rtol` in every share, at 95 %
    confidence; it is exact if `rtol` is None, or if all directions cost less than a sketch. Receivers and layers for
    which reverse mode is cheaper use it, and so do models with an operation that has no forward mode.
    """
    if rtol is not None and not 0 < rtol < 1:
        raise InputError(f"rtol must be between 0 and 1, or None for exact norms, got {rtol}")
    if norm == "spectral" and rtol is not None:
        raise InputError(f"rtol must be None for the spectral norm, which cannot be sketched, got {rtol}")
    if len({block.input.shape[-1] for block in capture.blocks}) > 1:
        raise ModelError("encoder and decoder states of different widths are not supported")
    passes = _Passes(capture, start, len(capture.upto(layer)))
    count = len(passes.zero)
    forward = norm == "frobenius" and (rows is None or len(set(rows)) >= count) and passes.can_push()
    layers = [passes.layers] if rows is not None else list(range(passes.layers + 1))
    if forward:
        products, owners = passes.push, count
    else:
        places = [(layer, row) for layer in layers for row in (range(count) if rows is None else rows)]
        products, owners = passes.pulling(places), len(places)
    measured = _measure(passes, products, owners, forward=forward, norm=norm, rtol=rtol, seed=seed)

    def by_layer(owner_maps: Float[Tensor, "owner other"]) -> Float[Tensor, "layer target source"]:
        if not forward:
            return owner_maps.unflatten(0, (len(layers), -1))
        maps = owner_maps.T.unflatten(0, (-1, count))  # [layer target source]
        return maps if rows is None else maps[-1:, list(rows)]

    return Jacobians(
        by_layer(measured.norms),
        by_layer(measured.errors),
        int(measured.directions.max()),
        float(measured.directions.mean()),
        passes.assumptions(),
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    """Norms by owner (a source in forward mode, a receiver in reverse mode), their errors, and directions used."""

    norms: Float[Tensor, "owner other"]
    errors: Float[Tensor, "owner other"]
    directions: Float[Tensor, " owner"]


def _measure(
    passes: "_Passes",
    products: Products,
    owners: int,
    *,
    forward: bool,
    norm: NormKind,
    rtol: float | None,
    seed: int,
) -> _Measured:
    """Sketch the norms, or compute them from all directions, folding the pass if possible."""
    zero, batch = passes.zero, passes.batch
    foldable = forward and passes.start == "embeddings"
    with progress("hidden token attribution") as report:
        if rtol is not None:
            sketch = sketched_norms(
                products,
                owners,
                batch,
                zero,
                report,
                rtol=rtol,
                seed=seed,
                rows_are_owners=not forward,
                worth=FOLDED_COST if foldable else 1.0,
            )
            if sketch is not None:
                return _Measured(sketch.norms, sketch.errors, sketch.used.double())
        if norm == "spectral":
            norms = _spectral(products, owners, zero, report)
        else:
            folded = fold(passes.capture, passes.layers, zero, batch, passes.push) if foldable else None
            if folded is not None:
                products, batch = folded.push, folded.batch
            norms = exact_norms(products, owners, batch, zero, report)
    every_direction = torch.full((owners,), float(zero.shape[1]), dtype=torch.float64)
    return _Measured(norms, torch.zeros_like(norms), every_direction)


def _spectral(products: Products, owners: int, like: Tensor, report: ReportProgress) -> Float[Tensor, "owner source"]:
    """The largest singular value of each block, one receiver at a time."""
    identity, norms = torch.eye(like.shape[-1]).to(like), []
    for owner in range(owners):
        blocks = products(torch.full((len(identity),), owner, device=like.device), identity)  # [direction source width]
        norms.append(torch.linalg.matrix_norm(blocks.transpose(0, 1), 2))
        report(owner + 1, owners)
    return torch.stack(norms)


class _Passes:
    """Products of the Jacobian of the model's own pass with directions, in forward and in reverse mode."""

    def __init__(self, capture: Capture, start: Start, layers: int) -> None:
        self.capture, self.layers, self.top = capture, layers, ""
        self.start: Start = start
        first = capture.blocks[0]
        self.zero = torch.zeros(len(capture.tokens), capture.width, dtype=first.input.dtype, device=first.input.device)
        count, width = self.zero.shape
        self.batch = max(1, BATCH_ELEMENTS // (count * (32 * width + 8 * first.attention.heads * count)))

    def states(self, epsilon: Float[Tensor, "token width"]) -> Float[Tensor, "layer token width"]:
        nudge = Nudge(self.capture, self.start, self.layers, epsilon)
        states = nudge.states()
        self.top = nudge.top
        return states

    def assumptions(self) -> tuple[str, ...]:
        own = str(self.zero.dtype).removeprefix("torch.")
        half = f"derivatives are taken in the model's own {own}; error bars do not include its rounding"
        return tuple(text for text in (self.top, half if working(self.zero.dtype) != self.zero.dtype else "") if text)

    def can_push(self) -> bool:
        """Whether every operation of the model has a forward-mode derivative."""
        try:
            self.push(torch.zeros(1, dtype=torch.long, device=self.zero.device), self.zero[:1])
        except InputError:
            return False
        return True

    @torch.no_grad()
    def push(self, tokens: Tensor, directions: Tensor) -> Tensor:
        """J v for directions v of source tokens: [direction layer·target width]."""

        def product(token: Tensor, direction: Tensor) -> Tensor:
            tangent = F.one_hot(token, len(self.zero)).to(direction)[:, None] * direction
            return torch.func.jvp(self.states, (self.zero,), (tangent,))[1]  # [layer target width]

        products = torch.vmap(product, chunk_size=self.batch)(tokens, directions)
        return products.flatten(1, 2).to(working(products.dtype))

    def pulling(self, places: Sequence[tuple[int, int]]) -> Products:
        """A function for vᵀJ with directions v of receivers, which are numbered as in `places` of (layer, row)."""
        epsilon = self.zero.clone().requires_grad_()
        with torch.enable_grad():
            states = self.states(epsilon)
        layers, rows = torch.tensor(places, device=epsilon.device).T
        lowest = int(layers.min())

        def pull(owners: Tensor, directions: Tensor) -> Tensor:
            slopes = []
            for batch_owners, batch in zip(owners.split(self.batch), directions.split(self.batch), strict=True):
                seeds = states.new_zeros(len(batch), *states[lowest:].shape)
                seeds[torch.arange(len(batch)), layers[batch_owners] - lowest, rows[batch_owners]] = batch
                (slope,) = torch.autograd.grad(
                    states[lowest:], epsilon, seeds, retain_graph=True, is_grads_batched=True
                )
                slopes.append(slope)
            return torch.cat(slopes).to(working(states.dtype))  # [direction source width]

        return pull
