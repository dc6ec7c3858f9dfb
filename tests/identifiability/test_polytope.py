"""Intervals and farthest vertices against all vertices of small polytopes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.identifiability.heads import head_block, random_values
from tests.reference import twins
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.polytope import Polytope, polytope, total_variation


def small(keys: int, size: int, seed: int, **options: Any) -> Polytope:
    block = head_block(random_values(1, keys, size, seed), **options)
    return polytope(value_space(block), 0, keys - 1, block.weights()[0, keys - 1])


def all_vertices(region: Polytope) -> np.ndarray:
    return twins.vertices(torch.from_numpy(region.weights), torch.from_numpy(region.columns)).numpy()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(0, 1000))
def test_interval_when_all_vertices_are_known_then_is_their_range(keys: int, size: int, seed: int) -> None:
    region = small(keys, size, seed)
    vertices = all_vertices(region)
    for key in range(keys):
        least, most = region.interval(key)
        assert least.value == pytest.approx(vertices[:, key].min(), abs=1e-7)
        assert most.value == pytest.approx(vertices[:, key].max(), abs=1e-7)
        assert least.value - 1e-9 <= region.weights[key] <= most.value + 1e-9
        assert abs(least.gap) < 1e-7
        assert abs(most.gap) < 1e-7


@settings(max_examples=25, deadline=None)
@given(st.integers(4, 8), st.integers(1, 3), st.integers(0, 1000))
def test_farthest_when_all_vertices_are_known_then_is_a_vertex_within_its_bound(
    keys: int, size: int, seed: int
) -> None:
    region = small(keys, size, seed)
    vertex, bound = region.farthest()
    distances = [total_variation(region.weights, row) for row in all_vertices(region)]
    reached = total_variation(region.weights, vertex)
    assert reached <= max(distances) + 1e-7 <= bound + 2e-7
    assert reached >= 0.8 * max(distances) - 1e-12  # local search: mostly the farthest, never far from it
    np.testing.assert_allclose(region.columns.T @ vertex, region.columns.T @ region.weights, atol=1e-8)
    assert vertex.min() >= 0
    assert vertex.sum() == pytest.approx(1)


def test_farthest_when_polytopes_are_small_then_is_mostly_the_farthest_of_all() -> None:
    hits = 0
    for seed in range(30):
        region = small(8, 2, seed)
        best = max(total_variation(region.weights, row) for row in all_vertices(region))
        hits += total_variation(region.weights, region.farthest()[0]) >= best - 1e-7
    assert hits >= 27


def test_interval_when_nothing_is_free_then_is_the_weight_itself_and_needs_no_solver() -> None:
    region = small(5, 4, 0)
    assert region.dimension == 0
    least, most = region.interval(2)
    assert least.status == most.status == "unique"
    assert least.value == most.value == region.weights[2]


def test_interval_when_values_are_all_the_same_then_is_zero_to_one() -> None:
    block = head_block(torch.ones(1, 6, 3, dtype=torch.float64))
    region = polytope(value_space(block), 0, 0, block.weights()[0, 0])
    assert [solution.value for solution in region.interval(3)] == pytest.approx([0, 1], abs=1e-9)


def test_interval_when_a_row_is_one_hot_then_may_still_move() -> None:
    query = torch.zeros(1, 1, 6, dtype=torch.float64)
    query[0, 0, 2] = 1e4
    values = random_values(1, 6, 2)
    values[0, 2] = values[0, [0, 1]].mean(0)  # the mean of two other values
    block = head_block(values, query=query, key=torch.eye(6, dtype=torch.float64)[None])
    region = polytope(value_space(block), 0, 0, block.weights()[0, 0])
    assert region.weights.tolist() == [0, 0, 1, 0, 0, 0]
    assert region.interval(2)[0].value == pytest.approx(0, abs=1e-9)
    assert region.interval(0)[1].value >= 0.5 - 1e-9


def test_polytope_when_a_sink_takes_mass_then_rows_may_sum_to_less() -> None:
    sinks = torch.tensor([0.5], dtype=torch.float64)
    region = small(6, 4, 3, sinks=sinks)
    assert len(region.weights) == len(region.keys) + 1
    assert region.weights.sum() == pytest.approx(1)
    vertices = all_vertices(region)
    for key in range(len(region.keys)):
        assert region.interval(key)[1].value == pytest.approx(vertices[:, key].max(), abs=1e-7)


def test_polytope_when_a_row_is_causal_then_has_only_its_keys() -> None:
    block = head_block(random_values(1, 9, 3), causal=True)
    region = polytope(value_space(block), 0, 5, block.weights()[0, 5])
    assert region.keys.tolist() == [0, 1, 2, 3, 4, 5]
    assert region.dimension == 2
