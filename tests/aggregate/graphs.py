"""Layered graphs, and slow, literal twins of max flow."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

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
    """Two branches of width 2, one narrowed to 1 at the bottom, the other near the top: the max flow is 1 + 1.

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
