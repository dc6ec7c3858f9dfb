"""Errors and tolerances, on numbers that can be checked by hand."""

from math import isnan, nan

import pytest
import torch

from thalweg.numerics import double, relative_error, relative_errors, tolerance, working, worst


def test_working_precision_when_half_then_is_float32() -> None:
    assert working(torch.float16) == working(torch.bfloat16) == working(torch.float32) == torch.float32
    assert working(torch.float64) == torch.float64


def test_double_when_already_double_then_is_not_copied() -> None:
    tensor = torch.ones(2, dtype=torch.float64)
    assert double(tensor).data_ptr() == tensor.data_ptr()
    assert double(torch.ones(2, requires_grad=True)).requires_grad is False


def test_tolerance_when_terms_or_rounding_grow_then_grows() -> None:
    unit = torch.finfo(torch.float32).eps
    assert tolerance(torch.float32, 4) == pytest.approx((1.5 + 16 * 2) * unit)
    assert tolerance(torch.float32, 0) == tolerance(torch.float32, 1)
    assert tolerance(torch.bfloat16, 4) == pytest.approx(1.5 * torch.finfo(torch.bfloat16).eps + 32 * unit)


def test_relative_error_when_one_vector_is_off_then_is_relative_to_its_length() -> None:
    expected = torch.tensor([[3.0, 4.0], [0.0, 10.0]])
    actual = expected + torch.tensor([[0.0, 0.5], [0.5, 0.0]])
    assert relative_error(actual, expected) == pytest.approx(0.1)
    assert relative_error(expected, expected) == 0
    assert relative_error(expected[:0], expected[:0]) == 0


def test_relative_error_when_a_vector_vanishes_then_is_relative_to_the_mean_length() -> None:
    expected = torch.tensor([[0.0, 0.0], [0.0, 10.0]])  # mean length 5, a hundredth of it 0.05
    actual = torch.tensor([[0.01, 0.0], [0.0, 10.0]])
    assert relative_error(actual, expected) == pytest.approx(0.2)


def test_relative_errors_when_examples_are_padded_then_padding_does_not_count() -> None:
    expected = torch.ones(2, 3, 1)
    actual = expected.clone()
    actual[0, 2], actual[1, 1] = 9.0, 1.25
    assert relative_errors(actual, expected, [2, 3]) == pytest.approx([0, 0.25])


def test_worst_when_any_error_is_nan_then_is_nan() -> None:
    assert worst([0.1, 0.3, 0.2]) == 0.3
    assert worst([]) == 0
    assert isnan(worst([0.1, nan, 0.2]))
