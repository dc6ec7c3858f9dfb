"""Proximity and norms of parts: closed forms, invariants, and heads that share a row."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.decompose.handmade import handmade
from tests.families import BY_NAME
from thalweg.decompose.contributions import proximity, shares
from thalweg.decompose.parts import decompose


def test_alti_when_a_token_gives_half_of_everything_then_has_half_the_share() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[9.0, 9.0], [1.0, 2.0]]),
                     torch.tensor([[1.0, 2.0], [3.0, 6.0]]))  # fmt: skip
    near = proximity(decompose(block), "l1")
    assert near[0].tolist() == [3.0, 3.0]  # y = (2, 4): either half comes three of six nearer
    assert near[1].tolist() == [0.0, 12.0]  # token 1 is all of it, residual and attention together


def test_alti_when_a_part_points_away_then_it_contributes_nothing() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [-1.0, -1.0]]),
                     torch.tensor([[3.0, 3.0], [3.0, 3.0]]))  # fmt: skip
    near = proximity(decompose(block), "l1")
    assert near[0, 1] == 0
    assert near[0, 0] > 0


@given(st.integers(0, 10_000))
def test_proximity_when_measured_then_lies_between_nothing_and_the_smaller_norm(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(4, 4, generator=generator).softmax(-1)
    block = handmade(weights, torch.randn(4, 5, generator=generator), torch.randn(4, 5, generator=generator))
    parts = decompose(block)
    near = proximity(parts, "l1")
    sizes = (weights[:, :, None] * parts.vectors[0]).clone()
    sizes[range(4), range(4)] += parts.own
    assert (near >= 0).all()
    assert (near <= torch.minimum(block.output.abs().sum(-1)[:, None], sizes.abs().sum(-1)) + 1e-4).all()
    bigger = replace(block, input=3 * block.input, summed=3 * block.summed, output=3 * block.output)
    values = 3 * block.attention.value
    scaled = replace(bigger, attention=replace(block.attention, value=values, output=3 * block.attention.output))
    torch.testing.assert_close(proximity(decompose(scaled), "l1"), 3 * near, atol=1e-3, rtol=1e-4)


def test_row_when_nothing_contributes_then_stays_with_its_token_and_is_counted() -> None:
    shared, empty = shares(torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.tensor([0, 1]))
    assert shared.tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert empty == 1
    capture = captured(BY_NAME["bert"])
    step, none = step_of(capture, capture.blocks[0], torch.zeros(12, 12))
    assert none == 12
    assert torch.equal(step, torch.eye(12))
