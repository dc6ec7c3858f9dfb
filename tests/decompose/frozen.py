"""A linear model with fixed attention, whose Jacobians have a closed form."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.discover.states import StateTaps
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Tap
from thalweg.capture.record import Attention, Block, Capture
from thalweg.capture.run import replay
from thalweg.tokens import anonymous


class Frozen(nn.Module):
    """y_i = x_i + Σ_h Σ_j α^h_ij x_j W_h in every layer, with attention α that depends on nothing."""

    def __init__(self, weights: Tensor, maps: Tensor) -> None:
        super().__init__()
        self.weights, self.maps = weights, maps  # [layer head query key], [layer head width width]
        self.layers = nn.ModuleList(nn.Identity() for _ in range(len(weights) + 1))

    def forward(self, states: Tensor) -> Tensor:
        for layer, weights, maps in zip(self.layers, self.weights, self.maps, strict=False):
            states = layer(states)
            states = states + torch.einsum("hij,bjd,hde->bie", weights, states, maps)
        return self.layers[-1](states)


def frozen(weights: Tensor, maps: Tensor, fixed: bool = False) -> Capture:
    """A capture of that model, made by hand."""
    model, states = Frozen(weights, maps), torch.randn(weights.shape[-1], maps.shape[-1])
    layers, heads, count, _ = weights.shape
    everything = slice(0, count)
    kept = Attention(torch.zeros(heads, count, 1), torch.zeros(count, heads, 1), kept=weights[0])
    block = Block(
        name="by hand", role="self", attention=kept, projection=torch.zeros(heads, 1, maps.shape[-1]), bias=None,
        branch_norm=None, scale=None, multiplier=1.0, input=states, summed=states, output=states, norm=None,
        parallel=False, queries=everything, keys=everything, parity=0.0, sum_error=0.0, tolerance=1e-4,
    )  # fmt: skip
    places = tuple(Tap(f"layers.{number}", "in", 0, 0) for number in range(layers + 1))
    states_at = StateTaps(
        starts=places[:-1], ends=places[-1:], entries=places[:1], after=places[1:],
        fixed=frozenset(places[:1] if fixed else ()), top="",
    )  # fmt: skip
    anatomy = Anatomy((), (), None, True, Missing("made by hand"), states_at)

    def again(handle: Any, copies: int = 1) -> Any:
        return replay(model, {"states": states.repeat(copies, 1, 1)}, anatomy, handle)

    return Capture(anonymous(count), tuple(replace(block) for _ in range(layers)), None, (), (), (), {}, again)
