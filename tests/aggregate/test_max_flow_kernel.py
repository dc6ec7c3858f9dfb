"""The compiled kernels: flows of a stopped search and of joined fans are feasible, edge by edge."""

import numpy as np
import pytest

from tests.aggregate.graphs import CLOSE, GRAPHS, recursion_bound, softmax_attention
from thalweg.aggregate.max_flow import max_flow


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
    """The flow that the search of one pair leaves, by edge, and what `route` returns."""
    from thalweg.aggregate.max_flow_kernel import route

    depth, n, _ = layers.shape
    nodes = depth * n
    flow, sent, got = np.zeros(layers.size), np.zeros(n), np.zeros(n)
    returned = route(
        layers.reshape(-1), n, 1, depth - 1, layers[-1, i].copy(), layers[0, :, j].copy(), goal, max_phases,
        limits[:, j], reach[:, i], flow, sent, got, np.empty(flow.size, np.int64), np.empty(nodes),
        np.empty(nodes, bool), np.empty(nodes, np.int64), np.empty(nodes, np.int64),
        np.empty(nodes + 1, np.int64), np.empty(nodes, np.int64), np.empty(nodes + 1, np.int64),
    )  # fmt: skip
    edges = flow.reshape(layers.shape)
    edges[-1, i] = sent
    edges[0, :, j] = got
    return edges, returned


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


def test_min_sum_when_computed_by_the_pool_then_is_the_sum_of_minima() -> None:
    from thalweg.aggregate.max_flow_kernel import KernelPool

    left, right = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[0.5, 4.0], [2.5, 1.0]])
    with KernelPool(np.zeros((1, 2, 2))) as pool:
        assert pool.min_sum(left, right).tolist() == [[2.5, 2.0], [2.5, 1.0]]
