"""How well a layer's output determines its heads: concatenated, projected to too few dimensions, and added."""

from dataclasses import replace

import torch

from tests.identifiability.heads import generator, head_block, random_values
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.layer import certify_layer


def test_layer_when_the_projection_is_invertible_then_adds_nothing_to_single_heads() -> None:
    block = head_block(random_values(2, 9, 4))  # 9 keys, rank 4 and row sums: 9 − 4 − 1 free dimensions per head
    layer = certify_layer(3, block, value_space(block))
    assert (layer.layer, layer.heads) == (3, 2)
    assert layer.ambiguity_apart == layer.ambiguity_together == 8
    assert layer.separable
    assert not layer.narrow


def test_layer_when_its_projection_is_narrower_than_its_heads_then_loses_dimensions() -> None:
    projection = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator(5))
    block = head_block(random_values(2, 9, 4), projection)
    layer = certify_layer(0, block, value_space(block))
    assert layer.narrow
    assert layer.ambiguity_apart == 8
    assert layer.ambiguity_together == 2 * 9 - 2 - 5  # the output has five dimensions for the rows of both heads
    assert not layer.separable


def test_layer_when_heads_write_into_the_same_directions_then_are_not_separable() -> None:
    projection = torch.eye(4, dtype=torch.float64).expand(2, 4, 4).contiguous()
    block = replace(head_block(random_values(2, 5, 4), projection), heads_added=True)
    layer = certify_layer(0, block, value_space(block))
    assert layer.ambiguity_apart == 0
    assert layer.ambiguity_together == 2 * 5 - 2 - 4
    assert layer.heads_added
