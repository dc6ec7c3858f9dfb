"""The anatomy of a model, learnt once, and handlers that use it to choose which tensors of a pass they see."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from thalweg.capture.attention import Call
from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.discover.mlp import StreamWiring
from thalweg.capture.discover.states import StateTaps
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Tap
from thalweg.capture.record import Role

Pooling = Literal["first", "last", "all"]


@dataclass(frozen=True)
class Anatomy:
    """The wiring of all blocks, where hidden states are seen, and which positions the logits are read from."""

    blocks: tuple[BlockWiring, ...]
    roles: tuple[Role, ...]
    pooling: Pooling | None
    through_registry: bool
    stream: StreamWiring | Missing
    states: StateTaps

    @property
    def taps(self) -> set[Tap]:
        """The taps that proving the blocks needs."""
        return {
            tap
            for wiring in self.blocks
            for tap in (wiring.residual, wiring.total, wiring.parallel, wiring.output)
            if tap is not None
        }


@runtime_checkable
class Witness(Protocol):
    """A handler of attention calls that also chooses which tensors of the pass are kept."""

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]: ...
    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]: ...


@runtime_checkable
class Editor(Witness, Protocol):
    """A witness that receives the tensors at its taps as they pass and returns the ones the model continues with."""

    def edit(self, tap: Tap, value: Tensor) -> Tensor: ...
