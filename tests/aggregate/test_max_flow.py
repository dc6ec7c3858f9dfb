"""Validators for max flow: capacity, conservation, cut equals flow, and three other ways to get the number."""

import inspect
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.aggregate.graphs import (
    CLOSE,
    GRAPHS,
    causal,
    each_graph,
    linear_program_flow,
    networkx_flow,
    recursion_bound,
    scale_of,
    softmax_attention,
    two_bottlenecks,
)
from thalweg.aggregate.max_flow import flow_of_pair, max_flow
from thalweg.errors import InputError


def assert_valid_pair(layers, i, j):
    """The edge flows respect capacity and conservation, and the cut is as wide as the flow."""
    pair = flow_of_pair(layers, i, j)
    slack = 1e-12 * scale_of(layers)
    for flow, layer in zip(pair.edges, layers, strict=True):
        assert flow.shape == layer.shape
        assert flow.min() >= -slack
        assert np.all(flow <= layer + slack)
    for upper, lower in zip(pair.edges[1:], pair.edges[:-1], strict=True):
        np.testing.assert_allclose(upper.sum(0), lower.sum(1), atol=50 * slack)
    assert np.delete(pair.edges[-1], i, axis=0).sum() == 0
    assert np.delete(pair.edges[0], j, axis=1).sum() == 0
    sides = pair.source_side
    assert sides[-1].tolist() == [k == i for k in range(len(sides[-1]))]
    assert sides[0].tolist() == [k != j for k in range(len(sides[0]))]
    across = [layer[np.ix_(up, ~down)].sum() for layer, down, up in zip(layers, sides, sides[1:], strict=False)]
    assert sum(across) == pytest.approx(pair.value, rel=CLOSE, abs=50 * slack)
    return pair.value


# --- the number is right


@each_graph
def test_max_flow_when_compared_with_networkx_then_equal_and_certified(layers):
    flow = max_flow(layers)
    np.testing.assert_allclose(flow.value, networkx_flow(layers), rtol=CLOSE, atol=CLOSE * scale_of(layers))
    finite = np.isfinite(flow.upper)
    assert np.all(flow.lower[finite] <= flow.upper[finite] + 1e-15 * scale_of(layers))
    assert flow.gap <= 1e-11 * np.max(flow.upper[finite], initial=0.0)
    assert sum(flow.certified_by.values()) == flow.value.size


@each_graph
def test_flow_of_pair_when_validated_then_feasible_and_as_wide_as_its_cut(layers):
    flow = max_flow(layers).value
    for i, j in np.ndindex(*flow.shape):
        if np.isfinite(flow[i, j]):
            assert assert_valid_pair(layers, i, j) == pytest.approx(flow[i, j], rel=CLOSE, abs=1e-300)


@each_graph
def test_scipy_solver_when_compared_with_layered_then_its_bounds_hold_the_value(layers):
    exact, rounded = max_flow(layers), max_flow(layers, solver="scipy")
    slack = 1e-12 * np.maximum(exact.value, 1e-300)
    slack[~np.isfinite(slack)] = 0.0
    assert np.all(rounded.lower <= exact.value + slack)
    assert np.all(rounded.upper >= exact.value - slack)
    np.testing.assert_allclose(rounded.value, exact.value, rtol=1e-5, atol=1e-6 * scale_of(layers))


@pytest.mark.parametrize("name", ["softmax", "causal", "leaky bottlenecks", "rectangular", "sparse"])
def test_max_flow_when_compared_with_linear_program_then_equal(name):
    layers = list(GRAPHS[name])
    flow = max_flow(layers).value
    for i, j in np.ndindex(*flow.shape):
        assert flow[i, j] == pytest.approx(linear_program_flow(layers, i, j), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", ["two bottlenecks", "leaky bottlenecks", "sharp", "sparse"])
def test_max_flow_when_recursion_bound_is_loose_then_still_exact(name):
    layers = GRAPHS[name]
    flow = max_flow(layers)
    bound = recursion_bound(layers)
    assert np.any(bound > flow.value * 1.001 + 1e-9), "the case no longer tests a loose bound"
    assert np.all(flow.value <= bound + 1e-12)
    assert flow.certified_by["augmenting paths"] > 0
    np.testing.assert_allclose(flow.value, networkx_flow(layers), rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize(("layers", "n"), [(6, 40), (12, 30)])
def test_max_flow_when_stack_is_large_then_shared_flows_agree_with_single_pairs(layers, n):
    attention = softmax_attention(layers, n, seed=9, sharpness=2.0)
    flow = max_flow(attention)
    assert flow.certified_by["shared flow"] > 0.5 * n * n
    rng = np.random.default_rng(0)
    for i, j in rng.integers(0, n, (40, 2)):
        assert flow.value[i, j] == pytest.approx(assert_valid_pair(attention, i, j), rel=CLOSE)


def test_two_bottlenecks_when_seen_by_hand_then_two_where_the_recursion_says_three():
    assert max_flow(two_bottlenecks()).value[0, 0] == 2.0
    assert recursion_bound(two_bottlenecks())[0, 0] == 3.0


def test_max_flow_when_one_layer_then_the_capacities():
    attention = softmax_attention(1, 5)
    np.testing.assert_array_equal(max_flow(attention).value, attention[0])


def test_max_flow_when_two_layers_then_sum_of_minima():
    lower, upper = softmax_attention(2, 6)
    expected = np.minimum(upper[:, :, None], lower[None]).sum(1)
    np.testing.assert_allclose(max_flow([lower, upper]).value, expected, rtol=1e-14)


def test_max_flow_when_every_layer_is_identity_then_identity():
    np.testing.assert_array_equal(max_flow([np.eye(4)] * 7).value, np.eye(4))


def test_max_flow_when_causal_then_lower_triangular_and_first_row_is_first_token():
    flow = max_flow(causal(6, 9)).value
    assert np.all(np.triu(flow, 1) == 0)
    np.testing.assert_allclose(flow[0], np.eye(9)[0])


def test_max_flow_when_a_path_has_no_limit_then_infinite():
    layers = [np.array([[np.inf, 0.5]]), np.array([[np.inf], [0.25]])]
    flow = max_flow(layers)
    np.testing.assert_array_equal(flow.value, [[np.inf, 0.5], [0.25, 0.25]])
    assert flow.gap == 0
    with pytest.raises(InputError, match="unbounded"):
        flow_of_pair(layers, 0, 0)


# --- what must hold for every graph


@st.composite
def graphs(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=7))
    seed = draw(st.integers(0, 2**32 - 1))
    density = draw(st.sampled_from([0.3, 0.7, 1.0]))
    power = draw(st.sampled_from([0.0, 1.0, 6.0]))
    rng = np.random.default_rng(seed)
    return [rng.random((up, down)) ** power * (rng.random((up, down)) < density) for down, up in pairwise(sizes)]


@settings(max_examples=120, deadline=None)
@given(graphs())
def test_any_graph_when_solved_then_equals_networkx_and_respects_bounds(layers):
    flow = max_flow(layers)
    np.testing.assert_allclose(flow.value, networkx_flow(layers), rtol=CLOSE, atol=1e-12)
    assert np.all(flow.value <= recursion_bound(layers) * (1 + 1e-12))
    assert flow.gap <= 1e-11 * max(1.0, flow.upper.max())


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_any_pair_when_built_then_feasible_and_as_wide_as_its_cut(layers, data):
    i = data.draw(st.integers(0, layers[-1].shape[0] - 1))
    j = data.draw(st.integers(0, layers[0].shape[1] - 1))
    value = assert_valid_pair(layers, i, j)
    assert value == pytest.approx(max_flow(layers).value[i, j], rel=CLOSE, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(-20, 20))
def test_any_graph_when_scaled_by_a_power_of_two_then_flow_scales(layers, power):
    scaled = max_flow([2.0**power * layer for layer in layers]).value
    np.testing.assert_array_equal(scaled, 2.0**power * max_flow(layers).value)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_any_graph_when_one_capacity_grows_then_no_flow_shrinks(layers, data):
    before = max_flow(layers).value
    level = data.draw(st.integers(0, len(layers) - 1))
    spot = data.draw(st.integers(0, layers[level].size - 1))
    layers[level].flat[spot] += 0.5
    assert np.all(max_flow(layers).value >= before - 1e-12)


@settings(max_examples=30, deadline=None)
@given(graphs(), st.integers(0, 1000))
def test_any_graph_when_nodes_are_renamed_then_flow_is_renamed(layers, seed):
    rng = np.random.default_rng(seed)
    sizes = [layers[0].shape[1], *(layer.shape[0] for layer in layers)]
    names = [rng.permutation(size) for size in sizes]
    renamed = [layer[np.ix_(up, down)] for layer, down, up in zip(layers, names, names[1:], strict=False)]
    expected = max_flow(layers).value[np.ix_(names[-1], names[0])]
    np.testing.assert_allclose(max_flow(renamed).value, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("sharpness", [0.5, 3.0, 8.0])
def test_flow_when_rows_are_stochastic_then_between_rollout_and_trivial_cuts(sharpness):
    attention = softmax_attention(7, 12, sharpness=sharpness)
    flow = max_flow(attention).value
    assert np.all(flow >= np.linalg.multi_dot(attention[::-1]) - 1e-12)
    assert np.all(flow <= np.minimum(1.0, attention[0].sum(0)) + 1e-12)


def test_flow_when_split_at_a_level_then_bounded_by_both_halves():
    attention = softmax_attention(6, 7, sharpness=4.0)
    flow = max_flow(attention).value
    for level in range(1, 6):
        upper, lower = max_flow(attention[level:]).value, max_flow(attention[:level]).value
        assert np.all(flow <= np.minimum(upper[:, :, None], lower[None]).sum(1) + 1e-12)


# --- arguments


@pytest.mark.parametrize("solver", ["layered", "scipy"])
def test_max_flow_when_targets_are_chosen_then_the_rows_of_the_full_map(solver):
    attention = softmax_attention(6, 10, sharpness=4.0)
    full = max_flow(attention, solver=solver)
    some = max_flow(attention, targets=[7, 2, 2], solver=solver)
    np.testing.assert_allclose(some.value, full.value[[7, 2, 2]], rtol=1e-11)
    assert max_flow(attention, targets=[], solver=solver).value.shape == (0, 10)


def test_max_flow_when_run_twice_or_on_other_numbers_of_threads_then_identical(monkeypatch: pytest.MonkeyPatch):
    numba = pytest.importorskip("numba")
    attention = softmax_attention(6, 16, sharpness=4.0)
    first, second = max_flow(attention), max_flow(attention)
    np.testing.assert_array_equal(first.value, second.value)
    for threads in (1, 3):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        other = max_flow(attention)
        np.testing.assert_array_equal(first.value, other.value)
        assert first.certified_by == other.certified_by


def test_max_flow_when_given_integers_or_float32_then_input_is_left_alone():
    layers = [np.array([[1, 2], [3, 4]]), np.array([[5, 0], [1, 1]], dtype=np.float32)]
    copies = [layer.copy() for layer in layers]
    np.testing.assert_array_equal(max_flow(layers).value, [[1, 2], [2, 2]])
    for layer, copy in zip(layers, copies, strict=True):
        np.testing.assert_array_equal(layer, copy)


def test_progress_when_given_then_grows_to_the_number_of_pairs():
    seen = []
    max_flow(causal(6, 30), progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (900, 900)


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        ([], {}, "got none"),
        ([np.ones(3)], {}, r"shape \(3,\)"),
        ([np.ones((2, 0))], {}, "non-empty"),
        ([np.ones((3, 2)), np.ones((2, 2))], {}, r"\[upper, 3\]"),
        ([-np.ones((2, 2))], {}, "-1.0"),
        ([np.full((2, 2), np.nan)], {}, "nan"),
        ([np.eye(2)], {"targets": [2]}, "0 to 1"),
        ([np.eye(2)], {"targets": [-1]}, r"\[-1\]"),
        ([np.eye(2)], {"targets": [0.5]}, "0.5"),
        ([np.eye(2)], {"solver": "magic"}, "layered"),
    ],
)
def test_max_flow_when_input_is_wrong_then_says_what_was_expected(layers, options, message):
    bare = inspect.unwrap(max_flow)  # as users run it: without the shape checks of the test run
    with pytest.raises(InputError, match=message):
        bare(layers, **options)


def test_flow_of_pair_when_source_is_out_of_range_then_says_so():
    with pytest.raises(InputError, match="0 to 1, got 5"):
        flow_of_pair([np.eye(2)], 0, 5)


def test_import_when_max_flow_is_imported_then_numba_is_not():
    code = "import sys, thalweg.aggregate.max_flow; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_capacities_when_their_sum_overflows_then_are_refused() -> None:
    wide = np.full((3, 3), 1e308)
    with pytest.raises(InputError, match="finite sum"):
        max_flow([wide, wide, np.diag([np.inf] * 3)])
