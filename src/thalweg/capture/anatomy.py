"""What is learnt about a model once, and handlers that choose by it what they see of a pass."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from thalweg.capture.attention import Call
from thalweg.capture.discover.block import Wiring
from thalweg.capture.discover.mlp import UpperWiring
from thalweg.capture.discover.states import States
from thalweg.capture.observe import Tap
from thalweg.capture.record import Role

Pooling = Literal["first", "last", "all"]


@dataclass(frozen=True)
class Anatomy:
    """What is learnt about a model once: its blocks' wiring, and which positions its logits are read from."""

    blocks: tuple[Wiring, ...]
    roles: tuple[Role, ...]
    pooling: Pooling | None
    through_registry: bool
    upper: UpperWiring | str  # what stands above attention, or why it was not looked for
    states: States

    @property
    def taps(self) -> set[Tap]:
        found = set()
        for wiring in self.blocks:
            found |= {wiring.residual, wiring.total, wiring.parallel, wiring.output}
        return found - {None}


@runtime_checkable
class Witness(Protocol):
    """A handler of attention calls that also chooses, knowing the model, which tensors are kept."""

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]: ...
    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]: ...


@runtime_checkable
class Editor(Witness, Protocol):
    """A witness that is given the tensors at its taps as they pass, and decides what the model goes on with."""

    def edit(self, tap: Tap, value: Tensor) -> Tensor: ...
