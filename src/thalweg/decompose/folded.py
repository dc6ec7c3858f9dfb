"""Folded Jacobians: between two attention calls tokens do not interact, so the derivative is one matrix per token.

Folding what lies between the calls (norms, projections, MLPs) into these matrices takes two sweeps over the width of a
state, each of which measures all tokens and all layers at once. A direction then passes a layer by three products and
the derivative of the model's own attention kernel, at a fraction of the cost of the pass itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.capture.attention import Call
from thalweg.capture.record import Capture
from thalweg.decompose.nudge import Nudge, without_fusion
from thalweg.errors import ThalwegError
from thalweg.numerics import relative_error, tolerance, working

MAX_FOLDED_ELEMENTS = 2**28  # numbers in all matrices: 1 GB in float32, and twice that while they are computed


@dataclass(eq=False)
class _Local(Nudge):
    """Cuts the pass into pieces: each starts from a state plus ε and from its kernel's output plus δ."""

    delta: Float[Tensor, "token heads_size"] = field(default_factory=lambda: torch.zeros(0, 0))
    calls: list[Call] = field(default_factory=list)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        self.calls.append(call)
        output, weights = super().__call__(call)
        return output.detach() + self.delta.view(output.shape), weights


@dataclass(frozen=True, eq=False)
class _Step:
    """One layer: the kernel, its inputs, and the matrices of each token before and after it."""

    inputs: tuple[Tensor, Tensor, Tensor]  # query, key, value
    run: Callable[..., tuple[Tensor, Tensor | None]]
    into: tuple[Float[Tensor, "token width _"], ...]  # from the state to query, key and value
    past: Float[Tensor, "token width width"]  # to the next state, with attention held fixed
    out: Float[Tensor, "token _ width"]  # from the kernel's output to the next state

    def push(self, state: Float[Tensor, "token direction width"]) -> Float[Tensor, "token direction width"]:
        def attend(*inputs: Tensor) -> Tensor:
            with without_fusion():
                return self.run(*inputs)[0]

        def derivative(*moves: Tensor) -> Tensor:
            return torch.func.jvp(attend, self.inputs, moves)[1]

        moves = []
        for matrix, like in zip(self.into, self.inputs, strict=True):
            moved = (state @ matrix).unflatten(-1, (like.shape[1], like.shape[3]))  # [token direction head size]
            moves.append(moved.permute(1, 2, 0, 3)[:, None])  # [direction one head token size]
        mixed = torch.vmap(derivative)(*moves)[:, 0].flatten(2)  # [direction token heads·size]
        return state @ self.past + mixed.transpose(0, 1) @ self.out


class Folded:
    """A folded single-sequence model; `push` computes J v in all layers as [direction layer·target width]."""

    def __init__(self, capture: Capture, layers: int, zero: Float[Tensor, "token width"], batch: int) -> None:
        self.zero, self.steps, self.batch = zero, [], 4 * batch
        size = capture.blocks[0].attention.output[0].numel()
        shapes = [(len(zero), width) for width in (zero.shape[-1], size)]
        plain = _Local(capture, "layer", layers, zero, delta=zero.new_zeros(shapes[1]))
        capture.replay(plain)

        def local(epsilon: Tensor, delta: Tensor) -> list[tuple[Tensor, ...]]:
            pieces = _Local(capture, "layer", layers, epsilon, delta=delta)
            capture.replay(pieces)
            return [
                (call.query, call.key, call.value, pieces.collected[tap])  # pyright: ignore[reportReturnType]
                for call, tap in zip(pieces.calls, pieces.after, strict=True)
            ]

        def slopes(side: int) -> list[tuple[Tensor, ...]]:
            """Derivatives with respect to each component of a state, or of a kernel's output, at all tokens at once."""

            def derivative(direction: Tensor) -> list[tuple[Tensor, ...]]:
                still = tuple(zero.new_zeros(shape) for shape in shapes)
                moves = tuple(
                    direction.expand(shape) if number == side else zero.new_zeros(shape)
                    for number, shape in enumerate(shapes)
                )
                return torch.func.jvp(local, still, moves)[1]

            return torch.vmap(derivative, chunk_size=batch)(torch.eye(shapes[side][1]).to(zero))

        for call, states, kernels in zip(plain.calls, slopes(0), slopes(1), strict=True):
            assert call.query is not None and call.key is not None
            into = tuple(moved[:, 0].permute(2, 0, 1, 3).flatten(2) for moved in states[:3])
            past, out = (moved.transpose(0, 1) for moved in (states[3], kernels[3]))
            self.steps.append(_Step((call.query, call.key, call.value), call.run, into, past, out))

    @torch.no_grad()
    def push(self, tokens: Tensor, directions: Tensor) -> Tensor:
        state = F.one_hot(tokens, len(self.zero)).T.to(directions)[:, :, None] * directions
        states = [state]
        for step in self.steps:
            states.append(step.push(states[-1]))
        return torch.stack(states).flatten(0, 1).transpose(0, 1).to(working(state.dtype))


def fold(
    capture: Capture,
    layers: int,
    zero: Float[Tensor, "token width"],
    batch: int,
    push: Callable[[Tensor, Tensor], Tensor],
) -> Folded | None:
    """The folded model, or None if folding is impossible, too large, or differs from the whole pass."""
    count, width = zero.shape
    plain = all(block.role == "self" and block.attention.kept is None for block in capture.blocks[:layers])
    alike = len({block.attention.output.shape for block in capture.blocks[:layers]}) == 1
    if not plain or not alike or count < 8 or layers * count * 5 * width**2 > MAX_FOLDED_ELEMENTS:
        return None
    try:
        with torch.no_grad():
            folded = Folded(capture, layers, zero, batch)
    except ThalwegError:
        return None
    token, direction = torch.tensor([count // 2], device=zero.device), torch.linspace(0.5, 1.5, width).to(zero)[None]
    computed, real = folded.push(token, direction)[0], push(token, direction)[0]
    return folded if relative_error(computed, real) <= 10 * tolerance(zero.dtype, width) else None
