"""The upper half of a pass, proved: each layer's second half, and the way from the last one to the logits."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thalweg.axes import Hidden
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.discover.mlp import SecondHalf, UpperWiring
from thalweg.capture.norm import Norm
from thalweg.capture.observe import Tap
from thalweg.capture.prove.linear_path import LinearPath, allowed_error, read_path
from thalweg.capture.record import Block, Capture
from thalweg.errors import InputError, ProofError
from thalweg.numerics import relative_error, working, worst


@dataclass(frozen=True, eq=False)
class Feedforward:
    """The second half of a layer: summed = y + multiplier · branch, output = its norm, or the sum itself.

    y is the output of the layer's attention block. `inside` leads to the branch from y, or from the block's input
    where attention and MLP run in parallel; it is a sentence where the MLP is of an unknown kind, as experts are.
    """

    block: Block
    branch: Hidden
    multiplier: float
    summed: Hidden
    norm: Norm | None
    output: Hidden
    inside: LinearPath | str

    @property
    def given(self) -> Hidden:
        """What the branch is made of."""
        return self.block.input if self.block.parallel else self.block.output


@dataclass(frozen=True, eq=False)
class Upper:
    """What stands above attention, for one example; a sentence says what could not be found."""

    values: tuple[LinearPath | str, ...]  # from each block's input to its values, [token head*value_size]
    layers: tuple[Feedforward, ...]
    readout: LinearPath | str


@dataclass(eq=False)
class _Witness:
    """Leaves attention to the model, and sees the second halves on the way."""

    model: nn.Module | None = None
    wiring: UpperWiring | str = ""

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        self.model, self.wiring = model, anatomy.upper
        if isinstance(self.wiring, str):
            raise InputError(f"this method needs more than attention blocks: {self.wiring}")
        return self.wiring.taps


def upper_half(capture: Capture) -> Upper:
    """Run the same inputs once more, and prove every layer's second half on the numbers of that pass.

    Raises InputError where a second half was never found, ProofError where it does not add up now.
    """
    witness = _Witness()
    with torch.no_grad():
        record = capture.replay(witness)
    model, wiring = witness.model, witness.wiring
    assert model is not None and isinstance(wiring, UpperWiring)
    seen = {one.tap: one.value for one in record.seen}
    layers = []
    for number, (block, half) in enumerate(zip(capture.blocks, wiring.halves, strict=True)):
        if isinstance(half, str):
            raise InputError(f"this method follows a layer to its end, but {half}")
        layer = _prove(model, block, half, seen)
        if number + 1 < len(capture.blocks):
            following = capture.blocks[number + 1]
            _require(relative_error(layer.output, following.input), layer, f"the input of {following.name!r}")
        layers.append(layer)
    first = capture.blocks[0].input

    def read(sites: tuple | str) -> LinearPath | str:
        return sites if isinstance(sites, str) else read_path(model, sites, first.dtype, first.device)

    values = tuple(read(sites) for sites in wiring.values)
    return Upper(values, tuple(layers), read(wiring.readout))


def _prove(model: nn.Module, block: Block, half: SecondHalf, seen: dict[Tap, Tensor]) -> Feedforward:
    count = len(block.input)

    def state(tap: Tap) -> Tensor:
        rows = seen[tap].detach()
        return rows.reshape(-1, rows.shape[-1])[:count]  # [token width], without padding

    exact = working(block.input.dtype)
    branch, total, output = state(half.branch), state(half.total), state(half.output)
    summed = block.output.to(exact) + half.multiplier * branch.to(exact)
    norm = None if half.norm is None else half.norm.read(model)
    error = relative_error(summed, total)
    if norm is not None:
        error = worst([error, relative_error(norm(summed), output)])
    inside = half.inside
    if not isinstance(inside, str):
        inside = read_path(model, inside, block.input.dtype, block.input.device)
    layer = Feedforward(block, branch, half.multiplier, total, norm, output, inside)
    _require(error, layer, str(half.output))
    return layer


def _require(error: float, layer: Feedforward, flowed: str) -> None:
    allowed = allowed_error(layer.block.input.dtype, layer.block.input.shape[1])
    if not error <= allowed:
        raise ProofError(
            f"what follows the attention block {layer.block.name!r} should add up to {flowed}, but differs by "
            f"{error:.1e} of its size where {allowed:.1e} is allowed; it is refused rather than guessed"
        )
