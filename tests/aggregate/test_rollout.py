"""Closed forms of products of layers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from thalweg.aggregate.rollout import cumulative, rollout


def stochastic(data: st.DataObject, layers: int, tokens: int) -> list[torch.Tensor]:
    raw = data.draw(arrays(np.float64, (layers, tokens, tokens), elements=st.floats(0.01, 1)))
    return list(torch.from_numpy(raw / raw.sum(-1, keepdims=True)))


@given(st.data())
def test_rollout_when_layers_are_distributions_then_so_are_its_rows(data: st.DataObject) -> None:
    steps = stochastic(data, 3, 4)
    rolled = rollout(steps, range(4))
    torch.testing.assert_close(rolled.sum(-1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(rolled, steps[2] @ rollout(steps[:2], range(4)))
    torch.testing.assert_close(rollout(steps, [2]), rolled[[2]])


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_rollout_when_attention_is_even_then_has_its_closed_form(layers: int) -> None:
    n = 6
    even = torch.full((n, n), 1 / n, dtype=torch.float64)
    steps = [0.5 * even + 0.5 * torch.eye(n, dtype=torch.float64)] * layers
    kept = 2.0**-layers
    expected = kept * torch.eye(n, dtype=torch.float64) + (1 - kept) * even
    torch.testing.assert_close(rollout(steps, range(n)), expected)


def test_rollout_when_two_layers_differ_then_the_higher_one_stands_on_the_left() -> None:
    lower = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # token 1 copies token 0
    upper = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])  # then token 2 copies token 1
    assert rollout([lower, upper], [2]).tolist() == [[1.0, 0.0, 0.0]]
    assert rollout([upper, lower], [2]).tolist() == [[0.0, 1.0, 0.0]]


def test_cumulative_when_layers_are_chained_then_each_is_the_product_of_those_below() -> None:
    steps = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]])
    assert cumulative(steps).tolist() == [[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]]]
