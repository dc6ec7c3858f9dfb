"""Different maps with the same output, among all distributions and among softmaxes of the head's keys."""

import pytest
import torch

from tests.identifiability.heads import head_block, random_head, random_values
from tests.reference import twins
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.replacement import (
    NoReplacement,
    Replacement,
    by_scaling,
    control,
    in_polytope,
    through_keys,
)


@pytest.mark.parametrize("seed", range(3))
def test_through_keys_when_keys_are_wider_than_values_then_finds_a_far_softmax_with_the_same_output(seed: int) -> None:
    block = random_head(30, 8, 4, seed)
    weights = block.weights()[0]
    replacement = through_keys(block, value_space(block), 0, weights, range(30))
    assert isinstance(replacement, Replacement)
    assert replacement.queries == tuple(range(30))
    moved = 0.5 * (replacement.map - weights).abs().sum(-1)
    assert float(moved.max()) > 0.2
    output = twins.head_values(block, 0)
    torch.testing.assert_close(replacement.map @ output, weights @ output, atol=1e-8, rtol=0)
    keys = block.attention.keys()
    assert keys is not None
    span = torch.cat([keys[0], torch.ones(30, 1, dtype=torch.float64)], 1)
    for row in replacement.map:  # its logits must be keys times a query, up to a constant
        kept = row > 1e-200
        fitted = span[kept] @ torch.linalg.lstsq(span[kept], row[kept].log()[:, None], driver="gelsd").solution
        torch.testing.assert_close(fitted[:, 0], row[kept].log(), atol=1e-6, rtol=1e-9)
    torch.testing.assert_close(replacement.map.sum(-1), torch.ones(30, dtype=torch.float64))


def test_through_keys_when_keys_are_narrower_than_values_then_gives_the_reason() -> None:
    block = random_head(30, 4, 8)
    replacement = through_keys(block, value_space(block), 0, block.weights()[0], range(30))
    assert isinstance(replacement, NoReplacement)
    assert "no row can change" in replacement.reason


def test_by_scaling_when_rows_are_free_then_moves_the_chosen_ones_and_keeps_their_output() -> None:
    block = head_block(random_values(3, 20, 4))
    weights = block.weights()[1]
    replacement = by_scaling(value_space(block), 1, weights, [2, 7])
    assert isinstance(replacement, Replacement)
    assert replacement.queries == (2, 7)
    moved = 0.5 * (replacement.map - weights).abs().sum(-1)
    assert moved.nonzero()[:, 0].tolist() == [2, 7]
    assert float(moved[[2, 7]].min()) > 0.1
    output = twins.head_values(block, 1)
    torch.testing.assert_close(replacement.map @ output, weights @ output, atol=1e-8, rtol=0)


def test_by_scaling_when_attention_is_determined_then_gives_the_reason() -> None:
    block = head_block(random_values(1, 4, 6))
    replacement = by_scaling(value_space(block), 0, block.weights()[0], range(4))
    assert isinstance(replacement, NoReplacement)
    assert "attention is determined" in replacement.reason


def test_in_polytope_when_a_row_is_free_then_moves_mass_and_keeps_the_output() -> None:
    block = head_block(random_values(1, 12, 3))
    weights = block.weights()[0]
    replacement = in_polytope(value_space(block), 0, weights, [2, 5])
    assert isinstance(replacement, Replacement)
    assert replacement.queries == (2, 5)
    values = twins.head_values(block, 0)
    torch.testing.assert_close(replacement.map @ values, weights @ values, atol=1e-8, rtol=0)
    moved = 0.5 * (replacement.map - weights).abs().sum(-1)
    assert moved.nonzero()[:, 0].tolist() == [2, 5]
    assert (moved[[2, 5]] <= torch.tensor(replacement.at_most) + 1e-9).all()


def test_in_polytope_when_nothing_is_free_then_gives_the_reason() -> None:
    block = head_block(random_values(1, 4, 4))
    replacement = in_polytope(value_space(block), 0, block.weights()[0], range(4))
    assert isinstance(replacement, NoReplacement)
    assert "determined" in replacement.reason


def test_through_keys_when_keys_were_not_captured_then_gives_the_reason() -> None:
    weights = torch.full((1, 4, 4), 0.25, dtype=torch.float64)
    block = head_block(random_values(1, 4, 2), weights=weights)
    replacement = through_keys(block, value_space(block), 0, weights[0], range(4))
    assert isinstance(replacement, NoReplacement)
    assert "not captured" in replacement.reason


def test_control_when_rows_are_replaced_then_moves_as_much_mass_in_these_rows() -> None:
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], dtype=torch.float64)
    other = torch.tensor([[0.4, 0.4, 0.2], [0.2, 0.3, 0.5]], dtype=torch.float64)
    moved = control(weights, Replacement(other, (0,), (1.0,)))
    assert 0.5 * float((moved[0] - weights[0]).abs().sum()) == pytest.approx(0.1)
    assert moved[0].sum() == pytest.approx(1)
    torch.testing.assert_close(moved[1], weights[1])
