"""Validators for max flow: capacity, conservation, cut equals flow, and three other ways to get
the number."""

import inspect
import os
import subprocess
import sys
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from thalweg.aggregate.max_flow import flow_of_pair, max_flow
from thalweg.errors import InputError

CLOSE = 1e-9


# --- inputs


def softmax_attention(layers, n, seed=0, sharpness=1.0):
    scores = sharpness * np.random.default_rng(seed).normal(size=(layers, n, n))
    weights = np.exp(scores)
    return 0.5 * weights / weights.sum(-1, keepdims=True) + 0.5 * np.eye(n)


def causal(layers, n, seed=0):
    lower = np.tril(softmax_attention(layers, n, seed, 2.0))
    return lower / lower.sum(-1, keepdims=True)


def sparse(layers, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((layers, n, n)) * (rng.random((layers, n, n)) < 0.25)


def two_bottlenecks(noise=0.0):
    """Two branches of width 2, one narrowed to 1 at the bottom, the other near the top: the truth
    is 1 + 1.

    Seen from the sink, two nodes above the lower bottleneck can each pass on 1; seen from the
    source, two nodes below the upper one can each get 1. So at every level at least one branch is
    counted twice, and the recursion gives 3: the minimum cut crosses levels.
    """
    layers = np.zeros((5, 4, 4))
    straight = np.arange(4)
    layers[1:4, straight, straight] = 1.0
    layers[4, 0] = [1, 1, 2, 0]
    layers[3, 2, 2] = 1.0  # the upper bottleneck
    layers[2, 2, 3] = 1.0  # and its fan, below
    layers[1, 1] = [1, 0, 0, 0]  # the lower branch comes together
    layers[0, :, 0] = [1, 0, 1, 1]
    return layers + noise * np.random.default_rng(5).random(layers.shape)


def rectangular():
    rng = np.random.default_rng(3)
    sizes = [4, 7, 2, 5, 3, 6]
    return [rng.random((up, down)) for down, up in pairwise(sizes)]


def with_carries():
    """An encoder-decoder stack: the first three nodes are carried through the upper layers without
    limit."""
    rng = np.random.default_rng(4)
    layers = [rng.random((6, 6)) * 0.3 for _ in range(5)]
    for layer in layers[2:]:
        layer[:3] = 0.0
        layer[range(3), range(3)] = np.inf
    return layers


def zero_rows_and_columns():
    layers = softmax_attention(5, 6, seed=8)
    layers[2][1] = 0.0
    layers[3][:, 4] = 0.0
    layers[0][:, 2] = 0.0
    layers[4][5] = 0.0
    return layers


GRAPHS = {
    "softmax": softmax_attention(6, 8),
    "sharp": softmax_attention(6, 8, seed=1, sharpness=4.0),
    "random": np.random.default_rng(0).random((4, 7, 7)),
    "no residual": softmax_attention(5, 7, seed=2, sharpness=3.0) - 0.5 * np.eye(7),
    "uniform": np.full((5, 6, 6), 1 / 6),
    "permutation": np.stack([np.eye(6)[np.random.default_rng(s).permutation(6)] for s in range(4)]),
    "identity": np.stack([np.eye(5)] * 6),
    "near identity": np.stack([np.eye(6)] * 6) + 1e-6 * softmax_attention(6, 6),
    "sparse": sparse(6, 9),
    "causal": causal(6, 8),
    "zero rows and columns": zero_rows_and_columns(),
    "two bottlenecks": two_bottlenecks(),
    "leaky bottlenecks": two_bottlenecks(noise=0.05),
    "rectangular": rectangular(),
    "carries": with_carries(),
    "one layer": softmax_attention(1, 5),
    "two layers": softmax_attention(2, 5),
    "three layers": softmax_attention(3, 6, sharpness=3.0),
    "one token": np.full((4, 1, 1), 0.3),
    "tiny capacities": 1e-12 * softmax_attention(5, 6),
    "huge capacities": 1e12 * softmax_attention(5, 6),
}
each_graph = pytest.mark.parametrize("layers", GRAPHS.values(), ids=GRAPHS.keys())


# --- slow, literal twins


def networkx_flow(layers):
    graph = nx.DiGraph()
    for level, layer in enumerate(layers):
        for (up, down), capacity in np.ndenumerate(layer):
            if capacity > 0:
                edge = {} if np.isinf(capacity) else {"capacity": capacity}
                graph.add_edge((level + 1, up), (level, down), **edge)
    result = np.zeros((layers[-1].shape[0], layers[0].shape[1]))
    for i, j in np.ndindex(*result.shape):
        source, sink = (len(layers), i), (0, j)
        if source in graph and sink in graph:
            result[i, j] = nx.maximum_flow_value(graph, source, sink)
    return result


def linear_program_flow(layers, i, j):
    """Maximise what leaves (L, i), as the definition says it, with one variable per edge."""
    offsets = np.cumsum([0, *(layer.size for layer in layers)])
    rows = []
    for level in range(1, len(layers)):
        for node in range(layers[level].shape[1]):
            row = [np.zeros_like(layer) for layer in layers]
            row[level][:, node] = 1
            row[level - 1][node] = -1
            rows.append(np.concatenate([part.ravel() for part in row]))
    limit = [layer.copy() for layer in layers]
    limit[-1][np.arange(len(limit[-1])) != i] = 0
    limit[0][:, np.arange(limit[0].shape[1]) != j] = 0
    gain = np.zeros(offsets[-1])
    gain[offsets[-2] :] = -1
    bounds = [(0, c) for c in np.concatenate([part.ravel() for part in limit])]
    equal = {"A_eq": np.stack(rows), "b_eq": np.zeros(len(rows))} if rows else {}
    return -linprog(gain, bounds=bounds, **equal).fun


def recursion_bound(layers):
    """The bound without the solver: U, D and their sums over every level."""

    def min_sum(a, b):
        return np.minimum(a[:, :, None], b[None]).sum(1)

    below, above = [layers[0]], [layers[-1]]
    for layer in layers[1:]:
        below.append(min_sum(layer, below[-1]))
    for layer in layers[-2::-1]:
        above.append(min_sum(above[-1], layer))
    middles = [min_sum(a, b) for a, b in zip(above[-2::-1], below, strict=False)]
    return np.min([below[-1], above[-1], *middles], axis=0)


def scale_of(layers):
    return max(np.max(layer[np.isfinite(layer)], initial=0.0) for layer in layers) or 1.0


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


def test_two_fans_when_thinned_and_joined_then_feasible_and_worth_their_common_part():
    """What the solver claims of shared flows, done edge by edge for every pair."""
    from thalweg.aggregate.max_flow_kernel import route_one

    layers, n, middle = softmax_attention(6, 10, seed=3, sharpness=3.0), 10, 3
    exact = max_flow(layers).value
    hub = np.full(n, 1 / n)
    for i, j in np.ndindex(n, n):
        supply, demand = layers[-1, i].copy(), layers[0][:, j].copy()
        top, sent, arrives, _ = route_one(layers, middle, 5, supply, hub, 1.0)
        bottom, departs, got, _ = route_one(layers, 1, middle, hub, demand, 1.0)
        common = np.minimum(arrives, departs)
        edges = np.zeros_like(layers)
        keep = np.divide(common, arrives, out=np.zeros(n), where=arrives > 0)
        for level in range(middle, 5):  # upwards: an upper node sends what its edges still carry
            edges[level] = top[level] * keep
            before = top[level].sum(1)
            keep = np.divide(edges[level].sum(1), before, out=np.zeros(n), where=before > 0)
        edges[5, i] = sent * keep
        keep = np.divide(common, departs, out=np.zeros(n), where=departs > 0)
        for level in range(middle - 1, 0, -1):
            edges[level] = bottom[level] * keep[:, None]
            before = bottom[level].sum(0)
            keep = np.divide(edges[level].sum(0), before, out=np.zeros(n), where=before > 0)
        edges[0][:, j] = got * keep
        assert np.all(edges >= 0)
        assert np.all(edges <= layers + 1e-12)
        for upper, lower in zip(edges[1:], edges[:-1], strict=True):
            np.testing.assert_allclose(upper.sum(0), lower.sum(1), atol=1e-12)
        assert edges[5].sum() == pytest.approx(common.sum(), abs=1e-12)
        assert common.sum() <= exact[i, j] + 1e-12


def cube_limits(layers):
    """What each node can pass on to each sink, and what can arrive there from each source, by level."""

    def min_sum(a, b):
        return np.minimum(a[:, :, None], b[None]).sum(1)

    below, above = [layers[0]], [layers[-1]]
    for layer in layers[1:-1]:
        below.append(min_sum(layer, below[-1]))
    for layer in layers[-2:0:-1]:
        above.append(min_sum(above[-1], layer))
    return np.stack(below).transpose(0, 2, 1).copy(), np.stack(above[::-1])


def edges_of_search(layers, i, j, goal, max_phases, limits, reach):
    """The flow that the search of one pair leaves, by edge, and what `route` says of it."""
    from thalweg.aggregate.max_flow_kernel import route

    depth, n, _ = layers.shape
    nodes = depth * n
    flow, sent, got = np.zeros(layers.size), np.zeros(n), np.zeros(n)
    said = route(
        layers.reshape(-1), n, 1, depth - 1, layers[-1, i].copy(), layers[0, :, j].copy(), goal, max_phases,
        limits[:, j], reach[:, i], flow, sent, got, np.empty(flow.size, np.int64), np.empty(nodes),
        np.empty(nodes, bool), np.empty(nodes, np.int64), np.empty(nodes, np.int64),
        np.empty(nodes + 1, np.int64), np.empty(nodes, np.int64), np.empty(nodes + 1, np.int64),
    )  # fmt: skip
    edges = flow.reshape(layers.shape)
    edges[-1, i] = sent
    edges[0, :, j] = got
    return edges, said


@pytest.mark.parametrize("max_phases", [1, 100], ids=["constructed flow", "augmenting paths"])
@pytest.mark.parametrize("name", ["softmax", "sharp", "sparse", "causal", "leaky bottlenecks"])
def test_search_of_a_pair_when_stopped_after_some_phases_then_its_flow_is_feasible(name, max_phases):
    layers = GRAPHS[name]
    limits, reach = cube_limits(layers)
    exact = max_flow(layers).value
    bound = recursion_bound(layers)
    for i, j in np.argwhere(bound > 0):
        edges, (value, *_) = edges_of_search(layers, i, j, bound[i, j], max_phases, limits, reach)
        assert np.all(edges >= -1e-12)
        assert np.all(edges <= layers + 1e-12)
        for upper, lower in zip(edges[1:], edges[:-1], strict=True):
            np.testing.assert_allclose(upper.sum(0), lower.sum(1), atol=1e-12)
        assert edges[-1].sum() == pytest.approx(value, abs=1e-12)
        assert edges[0].sum() == pytest.approx(value, abs=1e-12)
        assert value <= exact[i, j] + 1e-12
        if max_phases > 1:
            assert value == pytest.approx(exact[i, j], rel=CLOSE)


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
    whole = max_flow(attention).value
    for level in range(1, 6):
        upper, lower = max_flow(attention[level:]).value, max_flow(attention[:level]).value
        assert np.all(whole <= np.minimum(upper[:, :, None], lower[None]).sum(1) + 1e-12)


# --- how it is asked


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


def test_attention_flow_when_run_then_torch_keeps_its_number_of_threads():
    code = (
        "import sys, torch, thalweg as tw\n"
        "torch.set_num_threads(1)\n"  # numba would set its own number, if it were asked for that
        "tw.explain(tw.load(), 'a gorgeous, witty movie.', 'attention_flow', -1)\n"
        "sys.exit(torch.get_num_threads() != 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "NUMBA_NUM_THREADS": "2"}).returncode == 0


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
        ([], {}, "empty"),
        ([np.ones(3)], {}, r"shape \(3,\)"),
        ([np.ones((2, 0))], {}, "not empty"),
        ([np.ones((3, 2)), np.ones((2, 2))], {}, r"\[upper, 3\]"),
        ([-np.ones((2, 2))], {}, "-1.0"),
        ([np.full((2, 2), np.nan)], {}, "NaN"),
        ([np.eye(2)], {"targets": [2]}, r"0\.\.1"),
        ([np.eye(2)], {"targets": [-1]}, "out of range"),
        ([np.eye(2)], {"targets": [0.5]}, "node numbers"),
        ([np.eye(2)], {"solver": "magic"}, "layered"),
    ],
)
def test_max_flow_when_input_is_wrong_then_says_what_was_expected(layers, options, message):
    bare = inspect.unwrap(max_flow)  # as users run it: without the shape checks of the test run
    with pytest.raises(InputError, match=message):
        bare(layers, **options)


def test_flow_of_pair_when_source_is_out_of_range_then_says_so():
    with pytest.raises(InputError, match="level 0 has 2 nodes"):
        flow_of_pair([np.eye(2)], 0, 5)


def test_import_when_max_flow_is_imported_then_numba_is_not():
    code = "import sys, thalweg.aggregate.max_flow; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
