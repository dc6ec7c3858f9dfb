"""Curves and pooling weights by hand."""

import pytest
import torch

from thalweg.capture.sites import CURVES, GATES, CurveSite, Rows, pooling_weights


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("first", [1, 0, 0, 0]),
        ("last", [0, 0, 0, 1]),
        (0, [0.25] * 4),
        (2, [0, 0, 0.5, 0.5]),
    ],
)
def test_pooling_weights_when_rows_are_chosen_then_are_a_mean_over_them(rows: Rows, expected: list[float]) -> None:
    assert pooling_weights(rows, torch.zeros(4, 2)).tolist() == expected


def test_curves_when_at_zero_then_pass_through_the_origin_and_gates_need_not() -> None:
    zero = torch.zeros(1)
    assert all(float(curve(zero)) == 0 for curve in CURVES.values())
    assert float(GATES["sigmoid"](zero)) == 0.5


def test_sized_curves_when_applied_then_use_their_size() -> None:
    point = torch.tensor([-9.0, 0.5, 3.0])
    assert CurveSite("times", 2.0).curve()(point).tolist() == [-18.0, 1.0, 6.0]
    assert CurveSite("clip", 2.0).curve()(point).tolist() == [-2.0, 0.5, 2.0]
    torch.testing.assert_close(CurveSite("soft_cap", 2.0).curve()(point), 2 * torch.tanh(point / 2))
    assert CurveSite("relu").curve()(point).tolist() == [0.0, 0.5, 3.0]
