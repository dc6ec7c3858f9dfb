"""Proximity and norms of parts: closed forms, invariants, and heads that share a row."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.decompose.handmade import handmade
from thalweg.decompose.contributions import head_proximity, norms, proximity, shares
from thalweg.decompose.parts import decompose


def test_alti_when_a_token_gives_half_of_everything_then_has_half_the_share() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[9.0, 9.0], [1.0, 2.0]]),
                     torch.tensor([[1.0, 2.0], [3.0, 6.0]]))  # fmt: skip
    near = proximity(decompose(block), "l1")[0]
    assert near[0].tolist() == [3.0, 3.0]  # y = (2, 4): either half comes three of six nearer
    assert near[1].tolist() == [0.0, 12.0]  # token 1 is all of it, residual and attention together


def test_alti_when_a_part_points_away_then_it_contributes_nothing() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [-1.0, -1.0]]),
                     torch.tensor([[3.0, 3.0], [3.0, 3.0]]))  # fmt: skip
    near = proximity(decompose(block), "l1")[0]
    assert near[0, 1] == 0
    assert near[0, 0] > 0


@given(st.integers(0, 10_000))
def test_proximity_when_measured_then_lies_between_nothing_and_the_smaller_norm(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(4, 4, generator=generator).softmax(-1)
    block = handmade(weights, torch.randn(4, 5, generator=generator), torch.randn(4, 5, generator=generator))
    parts = decompose(block)
    near, _ = proximity(parts, "l1")
    sizes = (weights[:, :, None] * parts.vectors[0]).clone()
    sizes[range(4), range(4)] += parts.own
    assert (near >= 0).all()
    assert (near <= torch.minimum(block.output.abs().sum(-1)[:, None], sizes.abs().sum(-1)) + 1e-4).all()
    bigger = replace(block, input=3 * block.input, summed=3 * block.summed, output=3 * block.output)
    values = 3 * block.attention.value
    scaled = replace(bigger, attention=replace(block.attention, value=values, output=3 * block.attention.output))
    torch.testing.assert_close(proximity(decompose(scaled), "l1")[0], 3 * near, atol=1e-3, rtol=1e-4)


def test_shares_when_nothing_contributes_to_a_row_then_it_goes_to_its_fallback_and_is_counted() -> None:
    shared, empty = shares(torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.tensor([0, 1]))
    assert shared.tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert empty == 1


def test_norms_when_parts_are_visible_then_are_their_lengths() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.5, 0.5]]), torch.tensor([[2.0, 0.0], [3.0, 4.0]]),
                     torch.tensor([[0.0, 1.0], [0.0, 0.0]]))  # fmt: skip
    sizes, parity = norms(decompose(block))
    assert sizes.tolist() == [[1.0, 5.0], [1.0, 2.5]]  # row 0: its residual (0, 1), and token 1 with (3, 4)
    assert parity < 1e-6


def test_head_proximity_when_there_is_one_head_then_the_residual_is_a_part_of_its_own() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[9.0, 9.0], [1.0, 2.0]]),
                     torch.tensor([[1.0, 2.0], [3.0, 6.0]]))  # fmt: skip
    by_head, own = head_proximity(decompose(block), "l1")
    assert by_head.tolist() == [[[0.0, 3.0], [0.0, 3.0]]]  # token 1 adds (1, 2) by attention to both rows
    assert own.tolist() == [3.0, 9.0]
