"""The wiring of blocks is discovered in a model whose names say nothing."""

from typing import Any

import pytest
import torch

import thalweg as tw
from tests.capture.handmade import Handmade, handmade, traced
from tests.families import BY_NAME
from thalweg.capture.discover.block import BlockWiring, discover_blocks
from thalweg.capture.norm import NormSite
from thalweg.capture.observe import watch


def wirings(**shape: Any) -> tuple[Handmade, list[BlockWiring]]:
    model = handmade(**shape)
    with torch.no_grad():
        return model, discover_blocks(model, traced(model))


def test_pre_norm_block_when_discovered_then_adds_the_projection_to_the_layers_input() -> None:
    _, blocks = wirings()
    assert [block.projection for block in blocks] == ["y.0.d", "y.1.d"]
    assert [block.attention for block in blocks] == ["y.0", "y.1"]
    assert [str(block.residual) for block in blocks] == ["output of x", "output of y.0"]
    assert [str(block.total) for block in blocks] == ["input of y.0.b", "input of y.1.b"]
    for block in blocks:
        assert block.multiplier == 1
        assert block.norm is block.output is block.parallel is block.branch_norm is block.scale is None
        assert not block.cross and not block.added


def test_post_norm_block_when_discovered_then_ends_with_its_norm() -> None:
    _, blocks = wirings(post_norm=True)
    assert [block.norm for block in blocks] == [NormSite("y.0.a", True, False), NormSite("y.1.a", True, False)]
    assert [str(block.output) for block in blocks] == ["output of y.0.a", "output of y.1.a"]


def test_parallel_block_when_discovered_then_names_the_mlp_beside_it() -> None:
    _, blocks = wirings(parallel=True)
    assert [str(block.parallel) for block in blocks] == ["output of y.0.g", "output of y.1.g"]
    assert [str(block.total) for block in blocks] == ["output of y.0", "output of y.1"]


def test_multiplier_when_the_branch_is_scaled_then_is_the_shortest_number_that_fits() -> None:
    _, blocks = wirings(multiplier=0.22)
    assert [block.multiplier for block in blocks] == [0.22, 0.22]


def test_block_when_the_residual_is_never_added_then_the_error_names_its_projection() -> None:
    model = handmade()
    trace = traced(model)
    until = next(number for number, seen in enumerate(trace.seen) if str(seen.tap) == "input of y.0.b")
    del trace.seen[until:]  # the sum is never seen
    with pytest.raises(tw.ProofError, match=r"residual connection.*'y\.0'.*'y\.0\.d'"):
        discover_blocks(model, trace)


def test_block_when_a_gate_precedes_the_projection_then_the_error_says_so() -> None:
    model = handmade()
    for layer in (model.layer(0), model.layer(1)):
        layer.attend = lambda start, plain=layer.attend: plain(start) * start.sigmoid()
    with pytest.raises(tw.ProofError, match=r"output projection.*\(1, 6, 2, 4\).*gate"):
        discover_blocks(model, traced(model))


def test_cross_attention_when_keys_come_from_another_text_then_is_recognised() -> None:
    family = BY_NAME["bart"]
    model = family.build()
    with torch.no_grad():
        blocks = discover_blocks(model, watch(model, family.inputs(1, 6)))
    assert [block.cross for block in blocks] == [False, False, False, True, False, True]


def test_heads_when_they_are_added_then_the_projection_is_found_behind_their_sum() -> None:
    family = BY_NAME["identifiable_add"]
    model = family.build()
    with torch.no_grad():
        assert all(block.added for block in discover_blocks(model, watch(model, family.inputs(1, 6))))
