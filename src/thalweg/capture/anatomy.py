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

Pooling = Literal["first", "last", "all", "other"]  # all: alike; other: several positions in another way


@dataclass(frozen=True)
class Anatomy:
    """The wiring of all blocks, where hidden states are seen, and which positions the logits are read from.

    `positional` are the computations that treat positions differently; None until the model has been audited.
    """

    blocks: tuple[BlockWiring, ...]
    roles: tuple[Role, ...]
    pooling: Pooling | None
    through_registry: bool
    stream: StreamWiring | Missing
    states: StateTaps
    positional: frozenset[tuple[str, tuple[str, int]]] | None = None

    @property
    def treats_positions_alike(self) -> bool:
        """Whether a state leads to the same results at every position, but for the rotation of queries and keys."""
        known = self.positional
        return known is not None and all(quantity in ("queries", "keys", "weights") for quantity, _ in known)

    @property
    def taps(self) -> set[Tap]:
        """The taps that proving the blocks and their chain needs."""
        return {
            tap
            for wiring in self.blocks
            for tap in (wiring.residual, wiring.total, wiring.parallel, wiring.output, *self.states.ends)
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
