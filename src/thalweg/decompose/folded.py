"""Between two attention calls every token goes its own way, so the derivative there is one matrix per token.

Folding what stands between the calls (norms, projections, MLPs) into these matrices costs two sweeps per number of a
state, in which all tokens and all layers are measured at once. After that a direction passes a layer by three products
and the derivative of the model's own attention kernel, which is a fraction of the pass itself.
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

FOLDED = 2**28  # numbers that all matrices together may have: 1 GB in float32, and twice that while they are made


@dataclass(eq=False)
class _Local(Nudge):
    """Cuts the pass into pieces: each starts from a state plus ε and from what its kernel returned plus δ."""

    delta: Float[Tensor, "token heads_size"] = field(default_factory=lambda: torch.zeros(0, 0))
    calls: list[Call] = field(default_factory=list)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        self.calls.append(call)
        output, weights = super().__call__(call)
        return output.detach() + self.delta.view(output.shape), weights


@dataclass(frozen=True, eq=False)
class _Step:
    """One layer: the kernel, what it was given, and the matrices that lead from token to token."""

    given: tuple[Tensor, Tensor, Tensor]  # query, key, value
    run: Callable[..., tuple[Tensor, Tensor | None]]
    into: tuple[Float[Tensor, "token width _"], ...]  # from the state to query, key and value
    past: Float[Tensor, "token width width"]  # to the next state, attention held still
    out: Float[Tensor, "token _ width"]  # from what the kernel returned to the next state

    def push(self, state: Float[Tensor, "token direction width"]) -> Float[Tensor, "token direction width"]:
        def attend(*given: Tensor) -> Tensor:
            with without_fusion():
                return self.run(*given)[0]

        def one(*moves: Tensor) -> Tensor:
            return torch.func.jvp(attend, self.given, moves)[1]

        moves = []
        for matrix, like in zip(self.into, self.given, strict=True):
            moved = (state @ matrix).unflatten(-1, (like.shape[1], like.shape[3]))  # [token direction head size]
            moves.append(moved.permute(1, 2, 0, 3)[:, None])  # [direction one head token size]
        mixed = torch.vmap(one)(*moves)[:, 0].flatten(2)  # [direction token heads·size]
        return state @ self.past + mixed.transpose(0, 1) @ self.out


class Folded:
    """A model of one sequence, folded; `push` gives J v in all layers as [direction layer·target width]."""

    def __init__(self, capture: Capture, layers: int, zero: Float[Tensor, "token width"], batch: int) -> None:
        self.zero, self.steps, self.batch = zero, [], 4 * batch
        size = capture.blocks[0].attention.output[0].numel()
        shapes = [(len(zero), width) for width in (zero.shape[-1], size)]
        plain = _Local(capture, "layer", layers, zero, delta=zero.new_zeros(shapes[1]))
        capture.replay(plain)

        def local(epsilon: Tensor, delta: Tensor) -> list[tuple[Tensor, ...]]:
            found = _Local(capture, "layer", layers, epsilon, delta=delta)
            capture.replay(found)
            return [
                (call.query, call.key, call.value, found.found[tap])  # pyright: ignore[reportReturnType]
                for call, tap in zip(found.calls, found.after, strict=True)
            ]

        def slopes(side: int) -> list[tuple[Tensor, ...]]:
            """How everything moves with each number of a state, or of a kernel's result, at all tokens at once."""

            def one(direction: Tensor) -> list[tuple[Tensor, ...]]:
                still = tuple(zero.new_zeros(shape) for shape in shapes)
                moves = tuple(
                    direction.expand(shape) if number == side else zero.new_zeros(shape)
                    for number, shape in enumerate(shapes)
                )
                return torch.func.jvp(local, still, moves)[1]

            return torch.vmap(one, chunk_size=batch)(torch.eye(shapes[side][1]).to(zero))

        for call, states, kernels in zip(plain.calls, slopes(0), slopes(1), strict=True):
            assert call.query is not None and call.key is not None
            into = tuple(moved[:, 0].permute(2, 0, 1, 3).flatten(2) for moved in states[:3])
            past, out = (moved.transpose(0, 1) for moved in (states[3], kernels[3]))
            self.steps.append(_Step((call.query, call.key, call.value), call.run, into, past, out))

    @torch.no_grad()
    def push(self, tokens: Tensor, directions: Tensor) -> Tensor:
        state = F.one_hot(tokens, len(self.zero)).T.to(directions)[:, :, None] * directions
        found = [state]
        for step in self.steps:
            found.append(step.push(found[-1]))
        return torch.stack(found).flatten(0, 1).transpose(0, 1).to(working(state.dtype))


def fold(
    capture: Capture,
    layers: int,
    zero: Float[Tensor, "token width"],
    batch: int,
    push: Callable[[Tensor, Tensor], Tensor],
) -> Folded | None:
    """The model folded, if it can be and it pays; it must give what the whole pass gives for one direction."""
    count, width = zero.shape
    plain = all(block.role == "self" and block.attention.kept is None for block in capture.blocks[:layers])
    alike = len({block.attention.output.shape for block in capture.blocks[:layers]}) == 1
    if not plain or not alike or count < 8 or layers * count * 5 * width**2 > FOLDED:
        return None
    try:
        with torch.no_grad():
            folded = Folded(capture, layers, zero, batch)
    except ThalwegError:
        return None
    token, direction = torch.tensor([count // 2], device=zero.device), torch.linspace(0.5, 1.5, width).to(zero)[None]
    made, real = folded.push(token, direction)[0], push(token, direction)[0]
    return folded if relative_error(made, real) <= 10 * tolerance(zero.dtype, width) else None
