"""Relations among the tensors of a pass: equal values, sums, multiples, norms and scales, up to rounding.

`eps` is the machine epsilon of the precision in which the model computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from thalweg.capture.norm import NormSite, find_norm
from thalweg.capture.observe import Tap


@dataclass(frozen=True, eq=False)
class State:
    """An observed tensor as rows of numbers in double precision."""

    tap: Tap
    time: int
    rows: Tensor  # [token width]
    shape: tuple[int, ...]
    dtype: torch.dtype
    mark: tuple[float, float]  # a fingerprint: the same for equal tensors


def as_state(tap: Tap, time: int, value: Tensor) -> State:
    """An observed tensor with its fingerprint."""
    rows = value.detach().reshape(-1, value.shape[-1]).cpu().double()  # some accelerators have no float64
    weights = torch.linspace(1, 2, rows.numel(), dtype=rows.dtype, device=rows.device)
    flat = rows.flatten()
    mark = (float(flat @ weights), float(flat @ flat))
    return State(tap, time, rows, tuple(value.shape), value.dtype, mark)


def distinct(states: Sequence[State], like: State) -> list[State]:
    """The states with as many rows and columns as `like`, each value once."""
    kept: dict[tuple[float, float], State] = {}
    for state in states:
        if state.rows.shape == like.rows.shape:
            kept.setdefault(state.mark, state)
    return list(kept.values())


def multiple(rest: Tensor, part: Tensor) -> float:
    """The factor m that minimises ‖rest − m · part‖."""
    return float((rest * part).sum() / part.square().sum().clamp_min(1e-30))


def adds_up(total: Tensor, choices: Tensor, *parts: Tensor, eps: float) -> int | None:
    """The index of the choice that, added to the parts, gives the total up to rounding; None if none does.

    Each addition may round by half a unit of the model's precision. A term that is lost in this rounding proves
    nothing, so every term must be clearly larger than the rounding allowed.
    """
    if len(choices) == 0:
        return None
    sums, sizes = choices.clone(), choices.abs()
    for part in parts:
        sums += part
        sizes += part.abs()
    allowed = (len(parts) + 1) * eps * sizes
    fits = ((total - sums).abs() <= allowed).flatten(1).all(1)  # [choice]
    for hit in fits.nonzero().flatten().tolist():
        smallest = min(part.abs().mean() for part in (choices[hit], *parts))
        if smallest > 4 * allowed[hit].mean():
            return hit
    return None


def is_scale(rows: Tensor, image: Tensor, eps: float) -> bool:
    """Whether each channel is multiplied by its own factor, the same for all tokens."""
    factor = (rows * image).sum(0) / rows.square().sum(0).clamp_min(1e-30)
    return bool(((rows * factor - image).abs() <= 4 * eps * image.abs()).all())


def norm_between(argument: State, result: State, modules: dict[str, nn.Module], eps: float) -> NormSite | None:
    """The norm that turns the argument of a module call into its result, if the module is one."""
    if argument.rows.shape != result.rows.shape:
        return None
    name = argument.tap.module
    return find_norm(name, modules[name], argument.rows, result.rows, eps)
