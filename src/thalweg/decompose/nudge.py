"""The model's own pass as a differentiable function of a small change ε of its states."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import StopPassError, Tap
from thalweg.capture.record import Capture
from thalweg.capture.target import Start
from thalweg.errors import ModelError


def without_fusion() -> AbstractContextManager[object]:
    """Compute attention by plain products: fused kernels have no forward-mode derivative."""
    return sdpa_kernel(SDPBackend.MATH)


@dataclass(eq=False)
class Nudge:
    """An attention handler that adds ε to the states where the derivative starts, and collects the later ones."""

    capture: Capture
    start: Start
    layers: int
    epsilon: Float[Tensor, "token width"]
    collected: dict[Tap, Tensor] = field(default_factory=dict)
    top: str = ""

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        states = anatomy.states
        edited = {*states.entries, *(states.after[: self.layers - 1] if self.start == "layer" else ())}
        if fixed := edited & states.fixed:
            raise ModelError(f"the {min(fixed, key=str)} is read at other places too: a derivative would be incomplete")
        self.top = states.top if self.layers == len(states.after) else ""
        self.entries, self.after = set(states.entries), states.after[: self.layers]
        blocks = self.capture.blocks
        self.tokens = {tap: block.queries for tap, block in zip(self.after, blocks, strict=False)}
        sides = {block.queries.start: block.queries for block in blocks}
        self.tokens.update(zip(states.entries, (sides[start] for start in sorted(sides)), strict=True))
        return set(self.tokens)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        with without_fusion():
            return call.run()

    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        tokens = self.tokens[tap]
        count = tokens.stop - tokens.start
        rows = value.reshape(-1, value.shape[-1])
        if tap not in self.entries:
            self.collected[tap] = rows[:count].to(self.epsilon.device)
        if tap == self.after[-1]:
            raise StopPassError
        if tap not in self.entries and self.start == "embeddings":
            return value
        moved = F.pad(self.epsilon[tokens].to(value.device), (0, 0, 0, len(rows) - count))
        return value.detach() + moved.view(value.shape)

    def states(self) -> Float[Tensor, "layer token width"]:
        """The states of all tokens after the embeddings and after each layer; a block updates its queries only."""
        self.capture.replay(self)
        states = [self.epsilon]
        for tap in self.after:
            tokens, before = self.tokens[tap], states[0 if self.start == "layer" else -1]
            states.append(torch.cat([before[: tokens.start], self.collected[tap], before[tokens.stop :]]))
        return torch.stack(states)
