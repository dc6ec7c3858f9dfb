"""How strongly a hidden state moves with an earlier one: norms of the blocks ∂e_i/∂x_j of the Jacobian.

The model's own pass is run again with a zero ε added to the earlier states, and differentiated with respect to ε.
Forward mode pushes a direction of one source through all layers and reaches all receivers at once; reverse mode pulls
a direction of one receiver in one layer back to all sources. The pass itself is computed once for a whole batch of
directions; for exact norms it is folded first where that pays.
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
from thalweg.decompose.folded import fold
from thalweg.decompose.nudge import Nudge
from thalweg.decompose.sketch import NEGLIGIBLE, Products, Report, exact_norms, sketched_norms
from thalweg.errors import InputError, ModelError
from thalweg.numerics import working
from thalweg.progress import progress

NormKind = Literal["frobenius", "spectral"]
FOLDING = 1 / 3  # a direction of a folded pass costs less than half of one that is not
ELEMENTS = 2**25  # numbers that a batch of directions may take: 128 MB in float32


@dataclass(frozen=True, eq=False)
class Jacobians:
    """Norms of the blocks, and half widths of the error bars of each row's shares, relative to these.

    A share is a norm divided by its row's sum. Where it is below a tenth of an even share, its error is relative to
    that tenth. Errors are zero if nothing was sketched. Directions are counted per token.
    """

    norms: Float[Tensor, "layer target source"]
    errors: Float[Tensor, "layer target source"]
    most_directions: int
    mean_directions: float
    said: tuple[str, ...]

    def absolute(self) -> Float[Tensor, "layer target source"]:
        """Half widths of the error bars of the shares themselves."""
        shares = self.norms / self.norms.sum(-1, keepdim=True)
        return self.errors * shares.clamp_min(NEGLIGIBLE / shares.shape[-1])


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
    """‖∂e_i/∂x_j‖ of every layer from the embedding output (which is layer 0) up to the one that is asked for.

    With `rows` only these receivers, in the last layer only. x is the embedding output, or with start="layer" the
    states of the layer before. The Frobenius norm is sketched to a relative error of `rtol` in every share, at a
    confidence of 95 %, unless it is None, or all directions cost less than those that would be needed. Receivers and
    layers that cost less in reverse mode are computed so, and so are models with an operation that has no forward mode.
    """
    if rtol is not None and not 0 < rtol < 1:
        raise InputError(f"rtol was given {rtol}; expected a relative error between 0 and 1, or none for exact norms")
    if norm == "spectral" and rtol is not None:
        raise InputError(f"rtol was given {rtol} for a spectral norm, which cannot be sketched; expected none")
    if len({block.input.shape[-1] for block in capture.blocks}) > 1:
        raise ModelError("source and target have states of different widths, which is not supported")
    passes = _Passes(capture, start, len(capture.upto(layer)))
    count, width = passes.zero.shape
    pushed = norm == "frobenius" and (rows is None or len(set(rows)) >= count) and passes.can_push()
    wanted = [passes.layers] if rows is not None else list(range(passes.layers + 1))
    batch = passes.batch
    if pushed:
        products, owners = passes.push, count
    else:
        places = [(layer, row) for layer in wanted for row in (range(count) if rows is None else rows)]
        products, owners = passes.pulling(places), len(places)
    may_fold = pushed and start == "embeddings"
    sketch = None
    with progress("hidden token attribution") as report:
        if rtol is not None:
            sketch = sketched_norms(
                products,
                owners,
                batch,
                passes.zero,
                report,
                rtol=rtol,
                seed=seed,
                rows_are_owners=not pushed,
                worth=FOLDING if may_fold else 1.0,
            )
        if sketch is not None:
            sizes, errors, used = sketch.norms, sketch.errors, sketch.used.double()
        elif norm == "spectral":
            sizes, errors, used = _spectral(products, owners, passes.zero, report), None, None
        else:
            folded = fold(capture, passes.layers, passes.zero, batch, passes.push) if may_fold else None
            if folded is not None:
                products, batch = folded.push, folded.batch
            sizes, errors, used = exact_norms(products, owners, batch, passes.zero, report), None, None

    def laid_out(found: Tensor) -> Tensor:
        if not pushed:
            return found.unflatten(0, (len(wanted), -1))
        maps = found.T.unflatten(0, (-1, count))  # [layer target source]
        return maps if rows is None else maps[-1:, list(rows)]

    return Jacobians(
        laid_out(sizes),
        laid_out(torch.zeros_like(sizes) if errors is None else errors),
        width if used is None else int(used.max()),
        float(width) if used is None else float(used.mean()),
        passes.said(),
    )


def _spectral(products: Products, owners: int, like: Tensor, report: Report) -> Float[Tensor, "owner source"]:
    """The largest singular value of whole blocks, of one receiver at a time."""
    identity, found = torch.eye(like.shape[-1]).to(like), []
    for owner in range(owners):
        whole = products(torch.full((len(identity),), owner, device=like.device), identity)  # [direction source width]
        found.append(torch.linalg.matrix_norm(whole.transpose(0, 1), 2))
        report(owner + 1, owners)
    return torch.stack(found)


class _Passes:
    """Directions through the model's own pass, forwards and backwards."""

    def __init__(self, capture: Capture, start: Start, layers: int) -> None:
        self.capture, self.layers, self.top = capture, layers, ""
        self.start: Start = start
        first = capture.blocks[0]
        self.zero = torch.zeros(len(capture.tokens), capture.width, dtype=first.input.dtype, device=first.input.device)
        count, width = self.zero.shape
        self.batch = max(1, ELEMENTS // (count * (32 * width + 8 * first.attention.heads * count)))

    def states(self, epsilon: Float[Tensor, "token width"]) -> Float[Tensor, "layer token width"]:
        nudge = Nudge(self.capture, self.start, self.layers, epsilon)
        found = nudge.states()
        self.top = nudge.top
        return found

    def said(self) -> tuple[str, ...]:
        own = str(self.zero.dtype).removeprefix("torch.")
        half = f"derivatives are taken in the model's own {own}, whose rounding no error bar knows"
        return tuple(one for one in (self.top, half if working(self.zero.dtype) != self.zero.dtype else "") if one)

    def can_push(self) -> bool:
        """Whether every operation of the model has a derivative in forward mode."""
        try:
            self.push(torch.zeros(1, dtype=torch.long, device=self.zero.device), self.zero[:1])
        except InputError:
            return False
        return True

    @torch.no_grad()
    def push(self, tokens: Tensor, directions: Tensor) -> Tensor:
        """J v for directions v of source tokens: [direction layer·target width]."""

        def one(token: Tensor, direction: Tensor) -> Tensor:
            tangent = F.one_hot(token, len(self.zero)).to(direction)[:, None] * direction
            return torch.func.jvp(self.states, (self.zero,), (tangent,))[1]  # [layer target width]

        found = torch.vmap(one, chunk_size=self.batch)(tokens, directions)
        return found.flatten(1, 2).to(working(found.dtype))

    def pulling(self, places: Sequence[tuple[int, int]]) -> Products:
        """A function that gives vᵀJ for directions v of receivers, by their number among (layer, row) places."""
        epsilon = self.zero.clone().requires_grad_()
        with torch.enable_grad():
            states = self.states(epsilon)
        layers, rows = torch.tensor(places, device=epsilon.device).T
        lowest = int(layers.min())

        def pull(owners: Tensor, directions: Tensor) -> Tensor:
            found = []
            for own, some in zip(owners.split(self.batch), directions.split(self.batch), strict=True):
                given = states.new_zeros(len(own), *states[lowest:].shape)
                given[torch.arange(len(own)), layers[own] - lowest, rows[own]] = some
                (slope,) = torch.autograd.grad(
                    states[lowest:], epsilon, given, retain_graph=True, is_grads_batched=True
                )
                found.append(slope)
            return torch.cat(found).to(working(states.dtype))  # [direction source width]

        return pull
