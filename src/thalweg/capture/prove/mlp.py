"""Verify everything between attention and the logits: MLPs, paths to the values, and the readout."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thalweg.axes import Hidden
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.discover.mlp import FeedforwardWiring, StreamWiring
from thalweg.capture.missing import Missing
from thalweg.capture.norm import Norm
from thalweg.capture.observe import Tap
from thalweg.capture.prove.linear_path import LinearPath, allowed_error, read_path
from thalweg.capture.record import Block, Capture
from thalweg.capture.sites import Site
from thalweg.errors import InputError, ProofError
from thalweg.numerics import relative_error, working, worst


@dataclass(frozen=True, eq=False)
class Feedforward:
    """The second half of a layer: summed = y + multiplier · branch; output is its norm or the sum itself.

    y is the output of the layer's attention block. `branch_path` leads from `branch_input` to the branch; it is
    missing if the MLP is of an unknown kind, such as a mixture of experts.
    """

    block: Block
    branch: Hidden
    multiplier: float
    summed: Hidden
    norm: Norm | None
    output: Hidden
    branch_path: LinearPath | Missing

    @property
    def branch_input(self) -> Hidden:
        """The start of the branch: y, or the block's input if attention and MLP run in parallel."""
        return self.block.input if self.block.parallel else self.block.output


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """How one example's residual stream is read and written outside of attention weights."""

    values: tuple[LinearPath | Missing, ...]  # from each block's input to its values, [token head*value_size]
    layers: tuple[Feedforward, ...]
    readout: LinearPath | Missing


@dataclass(eq=False)
class _Witness:
    """Leaves attention unchanged and keeps the tensors around the MLPs."""

    model: nn.Module | None = None
    wiring: StreamWiring | None = None

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        if isinstance(anatomy.stream, Missing):
            raise InputError(f"this method needs the path from the blocks to the logits, but {anatomy.stream.reason}")
        self.model, self.wiring = model, anatomy.stream
        return self.wiring.taps


def residual_stream(capture: Capture) -> ResidualStream:
    """Run the same inputs again and verify every layer's MLP on the numbers of that pass.

    Raises InputError if an MLP was not found in the model, ProofError if it does not add up.
    """
    witness = _Witness()
    with torch.no_grad():
        tensors = capture.replay(witness).tensors
    model, wiring = witness.model, witness.wiring
    assert model is not None and wiring is not None
    layers = []
    for number, (block, layer_wiring) in enumerate(zip(capture.blocks, wiring.layers, strict=True)):
        if isinstance(layer_wiring, Missing):
            raise InputError(f"this method needs the output of every layer, but {layer_wiring.reason}")
        layer = _prove(model, block, layer_wiring, tensors)
        if number + 1 < len(capture.blocks):
            following = capture.blocks[number + 1]
            _require(relative_error(layer.output, following.input), layer, f"input of {following.name!r}")
        layers.append(layer)
    first = capture.blocks[0].input
    values = tuple(_read(model, sites, first) for sites in wiring.values)
    return ResidualStream(values, tuple(layers), _read(model, wiring.readout, first))


def _read(model: nn.Module, sites: tuple[Site, ...] | Missing, like: Hidden) -> LinearPath | Missing:
    return sites if isinstance(sites, Missing) else read_path(model, sites, like.dtype, like.device)


def _prove(model: nn.Module, block: Block, wiring: FeedforwardWiring, tensors: dict[Tap, Tensor]) -> Feedforward:
    count = len(block.input)

    def state(tap: Tap) -> Tensor:
        rows = tensors[tap].detach()
        return rows.reshape(-1, rows.shape[-1])[:count]  # [token width], without padding

    exact = working(block.input.dtype)
    branch, total, output = state(wiring.branch), state(wiring.total), state(wiring.output)
    summed = block.output.to(exact) + wiring.multiplier * branch.to(exact)
    norm = None if wiring.norm is None else wiring.norm.read(model)
    error = relative_error(summed, total)
    if norm is not None:
        error = worst([error, relative_error(norm(summed), output)])
    path = _read(model, wiring.branch_path, block.input)
    layer = Feedforward(block, branch, wiring.multiplier, total, norm, output, path)
    _require(error, layer, str(wiring.output))
    return layer


def _require(error: float, layer: Feedforward, observed: str) -> None:
    allowed = allowed_error(layer.block.input.dtype, layer.block.input.shape[1])
    if not error <= allowed:
        raise ProofError(
            f"the MLP after the attention block {layer.block.name!r} does not reproduce the {observed}: relative error "
            f"{error:.1e} (tolerance {allowed:.1e})"
        )
