"""Curves of queries with the same output, on a head whose hidden direction is known."""

import pytest
import torch

from thalweg.identifiability.fibre import MIN_MASS, Fibre

START = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
FREE_KEYS = torch.eye(4, dtype=torch.float64)  # every softmax can be reached


def fibre(matrix: torch.Tensor, start: torch.Tensor = START, keys: torch.Tensor = FREE_KEYS) -> Fibre:
    return Fibre(start, keys, matrix / matrix.norm(), 1e-8, None, 1.0)


def test_fibre_when_two_keys_have_equal_values_then_moves_mass_between_them_only() -> None:
    matrix = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], dtype=torch.float64)
    curve = fibre(matrix)
    assert curve.can_move
    row = curve.farthest()
    assert row is not None
    assert row[:2].sum() == pytest.approx(0.7)
    assert row[2:].tolist() == pytest.approx([0.2, 0.1])
    assert float((row - START).abs().sum()) / 2 > 0.25  # of at most 0.4


def test_fibre_when_values_are_independent_then_cannot_move() -> None:
    curve = fibre(FREE_KEYS)
    assert not curve.can_move
    assert curve.farthest() is None


def test_fibre_when_the_mass_that_can_move_is_tiny_then_finds_nothing() -> None:
    tiny = MIN_MASS / 4
    start = torch.tensor([tiny, tiny, 0.5 - tiny, 0.5 - tiny], dtype=torch.float64)
    matrix = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], dtype=torch.float64)
    curve = fibre(matrix, start)
    assert curve.can_move
    assert curve.farthest() is None


def test_fibre_when_logits_are_capped_then_stays_on_the_same_output() -> None:
    raw = 2 * torch.atanh(START.log() / 4)  # capped logits c·tanh(z/c) = log a / 2 at c = 2
    matrix = torch.tensor([[1.0, 0], [1.0, 0], [0, 1.0], [0, 0]], dtype=torch.float64)
    curve = Fibre(START, FREE_KEYS, matrix, 1e-8, raw, 2.0)
    row = curve.farthest()
    assert row is not None
    torch.testing.assert_close(matrix.T @ row, matrix.T @ START, atol=1e-9, rtol=0)
    assert row.sum() == pytest.approx(1)
