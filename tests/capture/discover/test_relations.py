"""Relations among tensors by hand: equality, sums, multiples, scales and norms."""

import torch
from torch import Tensor, nn

from thalweg.capture.discover.relations import State, adds_up, as_state, distinct, is_scale, multiple, norm_between
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import Tap

EPS = torch.finfo(torch.float32).eps


def state(value: Tensor, module: str = "", side: str = "out", time: int = 0) -> State:
    return as_state(Tap(module, side, None, 0), time, value)  # pyright: ignore[reportArgumentType]


def test_mark_when_tensors_are_equal_then_is_equal_and_order_matters() -> None:
    row = torch.tensor([[1.0, 2.0, 3.0]])
    assert state(row).mark == state(row[None].clone()).mark
    assert state(row).mark != state(row.flip(1)).mark
    assert state(row[None]).rows.dtype == torch.float64
    assert state(row[None]).shape == (1, 1, 3)


def test_distinct_when_values_repeat_then_keeps_the_first_of_the_same_shape() -> None:
    first, second, other = torch.ones(2, 3), 2 * torch.ones(2, 3), torch.ones(3, 3)
    states = [state(first, "a"), state(second, "b"), state(first, "c"), state(other, "d")]
    assert [kept.tap.module for kept in distinct(states, states[0])] == ["a", "b"]


def test_multiple_when_parts_are_parallel_then_is_their_factor() -> None:
    part = torch.tensor([[3.0, 4.0]])
    assert multiple(-0.5 * part, part) == -0.5
    assert multiple(torch.tensor([[-4.0, 3.0]]), part) == 0.0
    assert multiple(part, torch.zeros(1, 2)) == 0.0


def test_sum_when_it_adds_up_to_rounding_then_the_choice_is_found() -> None:
    torch.manual_seed(0)
    choices, part = torch.randn(4, 5, 8), torch.randn(5, 8)
    total = (choices[2] + part).double()
    assert adds_up(total, choices.double(), part.double(), eps=EPS) == 2
    assert adds_up(total + 1e-5, choices.double(), part.double(), eps=EPS) is None
    assert adds_up(total, choices[:0].double(), part.double(), eps=EPS) is None


def test_sum_when_a_part_is_lost_in_rounding_then_proves_nothing() -> None:
    choices = torch.randn(1, 5, 8).double()
    tiny = 1e-9 * torch.randn(5, 8).double()
    assert adds_up(choices[0] + tiny, choices, tiny, eps=EPS) is None


def test_scale_when_every_channel_has_one_factor_then_is_found() -> None:
    torch.manual_seed(0)
    rows, factor = torch.randn(5, 3), torch.tensor([2.0, -1.0, 0.5])
    assert is_scale(rows, rows * factor, EPS)
    assert not is_scale(rows, rows * factor + 0.01, EPS)


def test_norm_when_a_module_call_is_one_then_is_found() -> None:
    torch.manual_seed(0)
    modules: dict[str, nn.Module] = {"norm": nn.LayerNorm(8), "linear": nn.Linear(8, 8)}
    rows = torch.randn(5, 8)
    for name, expected in (("norm", NormSite("norm", True, False)), ("linear", None)):
        argument, result = state(rows, name, "in"), state(modules[name](rows), name)
        assert norm_between(argument, result, modules, EPS) == expected
    assert norm_between(state(rows, "norm", "in"), state(rows[:2], "norm"), modules, EPS) is None
