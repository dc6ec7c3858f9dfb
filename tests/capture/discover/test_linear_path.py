"""Paths between two tensors: every kind of step is found, and nothing is found where there is no path."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from thalweg.capture.discover.linear_path import MAX_PATH_STEPS, PathSearch
from thalweg.capture.discover.relations import State, as_state
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import Tap, watch
from thalweg.capture.sites import (
    AffineSite,
    BiasSite,
    ColumnsSite,
    CurveSite,
    GateSite,
    PoolSite,
    ScaleSite,
    Site,
)

TOKENS, WIDTH = 5, 6


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, state: Tensor) -> Tensor:
        return state * self.factor


class Steps(nn.Module):
    """Modules for the steps; `between` says how the model gets from its input to its result."""

    def __init__(self, between: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.between = between
        self.norm, self.scale = nn.LayerNorm(WIDTH), Scale()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fused = nn.Linear(WIDTH, 2 * WIDTH)
        self.extra = nn.Parameter(torch.randn(WIDTH))
        self.end = nn.Identity()

    def forward(self, state: Tensor) -> Tensor:
        return self.end(self.between(self, state))


def path(between: Callable[[Any, Tensor], Tensor], max_steps: int = MAX_PATH_STEPS) -> tuple[Site, ...] | None:
    """The path that is found from the model's input to its result."""
    torch.manual_seed(0)
    model = Steps(between)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    with torch.no_grad():
        record = watch(model, {"state": torch.randn(1, TOKENS, WIDTH)}, through_registry=False)
        states = [as_state(seen.tap, seen.time, seen.value) for seen in record.seen]
        by_tap: dict[Tap, State] = {state.tap: state for state in states}
        search = PathSearch(dict(model.named_modules()), torch.finfo(torch.float32).eps, states)
        return search.find(by_tap[Tap("end", "in", 0, 0)], by_tap[Tap("", "in", "state", 0)], max_steps)


FIRST, SECOND, FUSED = AffineSite("first"), AffineSite("second"), AffineSite("fused")
LOW, HIGH = ColumnsSite(tuple(range(WIDTH))), ColumnsSite(tuple(range(WIDTH, 2 * WIDTH)))


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (lambda m, x: x.clone(), ()),
        (lambda m, x: m.norm(x), (NormSite("norm", True, False),)),
        (lambda m, x: m.scale(x), (ScaleSite("scale"),)),
        (lambda m, x: m.second(m.first(x)), (FIRST, SECOND)),
        (lambda m, x: m.first(x) + m.extra, (FIRST, BiasSite("extra"))),
        (lambda m, x: m.fused(x)[..., WIDTH:], (FUSED, HIGH)),
        (lambda m, x: m.first(x)[..., [4, 0]], (FIRST, ColumnsSite((4, 0)))),
        (lambda m, x: m.second(F.gelu(m.first(x))), (FIRST, CurveSite("gelu"), SECOND)),
        (lambda m, x: m.second(F.relu(m.norm(x))), None),  # a curve must follow a linear map
        (lambda m, x: m.first(x) * 0.25, (FIRST, CurveSite("times", 0.25))),
        (lambda m, x: 3 * torch.tanh(m.first(x) / 3), (FIRST, CurveSite("soft_cap", 3.0))),
        (lambda m, x: F.silu(m.second(x)) * m.first(x), (FIRST, GateSite("silu", (SECOND,)))),
        (lambda m, x: F.glu(m.fused(x)), (FUSED, LOW, GateSite("sigmoid", (FUSED, HIGH)))),
        (lambda m, x: m.first(x)[:, 0], (FIRST, PoolSite(("first",)))),
        (lambda m, x: m.first(x)[:, -1], (FIRST, PoolSite(("last",)))),
        (lambda m, x: m.first(x).mean(1), (FIRST, PoolSite((0,)))),
        (lambda m, x: torch.cat([m.first(x)[:, 0], m.first(x)[:, 1:].mean(1)], -1), (FIRST, PoolSite(("first", 1)))),
        (lambda m, x: m.first(x).sin(), None),
        (lambda m, x: m.first(x) @ torch.ones(WIDTH, WIDTH), None),
    ],
    ids=[
        "nothing", "norm", "scale", "two_linear", "bias", "half", "columns", "mlp", "curve_after_norm", "times",
        "soft_cap", "gate", "fused_gate", "first", "last", "mean", "first_and_mean", "unknown_curve", "no_module",
    ],
)  # fmt: skip
def test_path_when_searched_then_is_the_steps_that_the_model_takes(
    between: Callable[[Any, Tensor], Tensor], expected: tuple[Site, ...] | None
) -> None:
    assert path(between) == expected


def test_clip_when_it_bounds_a_linear_map_then_its_size_is_read_from_the_numbers() -> None:
    sites = path(lambda m, x: m.first(x).clamp(-1.5, 1.5))
    assert sites is not None
    assert sites[0] == FIRST
    (clip,) = sites[1:]
    assert isinstance(clip, CurveSite)
    assert clip.name == "clip"
    assert clip.size == pytest.approx(1.5)


def test_path_when_longer_than_allowed_then_is_not_found() -> None:
    assert path(lambda m, x: m.second(m.first(x)), max_steps=2) == (FIRST, SECOND)
    assert path(lambda m, x: m.second(m.first(x)), max_steps=1) is None
