"""Sums of attention and effective attention, on weights whose shares are known."""

import pytest
import torch

from tests.identifiability.heads import head_block, random_values
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.effect_sums import EffectSums


def test_null_shares_when_all_values_are_equal_then_only_the_mean_weight_has_an_effect() -> None:
    weights = torch.tensor([[[0.7, 0.1, 0.2]]], dtype=torch.float64)
    block = head_block(torch.ones(1, 3, 2, dtype=torch.float64), weights=weights)
    sums = EffectSums(1)
    effective, with_sum = sums.add_rows(value_space(block), slice(None), weights, 0.25)
    torch.testing.assert_close(effective, torch.full((1, 1, 3), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(with_sum, effective)
    lost = (0.7 - 1 / 3) ** 2 + (0.1 - 1 / 3) ** 2 + (0.2 - 1 / 3) ** 2
    share = (lost / (0.49 + 0.01 + 0.04)) ** 0.5
    assert sums.null_shares()[:, 0].tolist() == pytest.approx([share, share])
    assert sums.parity == 0.25
    assert sums.error < 1e-12


def test_pearson_when_nothing_is_lost_then_is_one() -> None:
    block = head_block(random_values(2, 3, 4))
    sums = EffectSums(2)
    sums.add_rows(value_space(block), slice(None), block.weights(), 0.0)
    assert sums.null_shares().tolist() == [[0, 0], [0, 0]]
    assert sums.pearson() == [1, 1]


def test_sums_when_rows_come_in_chunks_then_equal_those_of_all_rows() -> None:
    block = head_block(random_values(2, 12, 3))
    space, weights = value_space(block), block.weights()
    whole, chunked = EffectSums(2), EffectSums(2)
    whole.add_rows(space, slice(None), weights, 0.0)
    for rows in (slice(0, 5), slice(5, 12)):
        chunked.add_rows(space, rows, weights[:, rows], 0.0)
    assert chunked.pearson() == pytest.approx(whole.pearson())
    torch.testing.assert_close(chunked.null_shares(), whole.null_shares())


def test_error_when_a_chunk_has_nan_then_is_nan() -> None:
    sums = EffectSums(1)
    nothing = torch.zeros(6, 1, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64)
    sums.add(*nothing, 0.1, float("nan"))
    sums.add(*nothing, 0.3, 0.0)
    assert sums.error != sums.error
    assert sums.parity == 0.3
