"""Attention flow of all pairs: ratios to a SciPy loop and to networkx, and growth with length.

SciPy and networkx solve a sample of pairs, and their time is extrapolated to all pairs; the loop builds its
graph once, before the clock starts. Ours and SciPy's take turns, networkx runs once.
"""

import time

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import thalweg as tw
from benchmarks.timing import best_of, own_peak_megabytes
from thalweg.aggregate.max_flow import Flow, max_flow

TEXT = (
    "The river ran low that summer, and the boats that came up from the coast kept to the deepest line of its "
    "bed. Nobody in the town had seen it so slow; even the old ferryman, who remembered the dry years before "
    "the war, said that the stones by the mill had never shown their backs for so long."
)
SCIPY_PAIRS = 40


def with_residual(weights: np.ndarray) -> np.ndarray:
    """[layer query key] mean over heads -> the capacities of Abnar and Zuidema 2020."""
    return 0.5 * weights + 0.5 * np.eye(weights.shape[-1])


def random_attention(layers: int, n: int, causal: bool = False) -> np.ndarray:
    """Softmax attention of random queries and keys, 4 heads of width 16."""
    rng = np.random.default_rng(0)
    maps = []
    for _ in range(layers):
        query, key = rng.normal(size=(2, 4, n, 16))
        weights = np.exp(query @ key.transpose(0, 2, 1) / 4)
        weights = np.tril(weights) if causal else weights
        maps.append((weights / weights.sum(-1, keepdims=True)).mean(0))
    return with_residual(np.stack(maps))


def real_attention() -> np.ndarray:
    """A text of about 64 tokens in the bundled model."""
    capture = tw.load().capture(TEXT)
    return with_residual(np.stack([block.weights().mean(0).double().numpy() for block in capture.blocks]))


def sampled_pairs(maps: np.ndarray, count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, maps.shape[1], (count, 2))


def scipy_graph(maps: np.ndarray) -> csr_array:
    layers, n, _ = maps.shape
    graph = np.zeros(((layers + 1) * n,) * 2, np.int32)
    for level, layer in enumerate(maps):
        graph[(level + 1) * n : (level + 2) * n, level * n : (level + 1) * n] = layer * 2**24
    return csr_array(graph)


def networkx_seconds(maps: np.ndarray) -> float:
    """One pair with Edmonds-Karp, as in the authors' code but without its zero edges."""
    graph = nx.DiGraph()
    for level, layer in enumerate(maps):
        for (up, down), capacity in np.ndenumerate(layer):
            if capacity > 0:
                graph.add_edge((level + 1, up), (level, down), capacity=capacity)
    i, j = sampled_pairs(maps, 1)[0]
    start = time.perf_counter()
    solver = nx.algorithms.flow.edmonds_karp
    nx.maximum_flow_value(graph, (len(maps), i), (0, j), flow_func=solver)
    return time.perf_counter() - start


def shares(flow: Flow) -> str:
    return ", ".join(f"{k} {v / flow.value.size:.0%}" for k, v in flow.certified_by.items() if v)


def compare(name: str, maps: np.ndarray) -> None:
    layers, n, _ = maps.shape
    graph, pairs = scipy_graph(maps), sampled_pairs(maps, SCIPY_PAIRS)

    def loop() -> None:
        for i, j in pairs:
            maximum_flow(graph, int(layers * n + i), int(j))

    seconds = best_of(5, ours=lambda: max_flow(maps), scipy=loop)
    ours, scipy = seconds["ours"], seconds["scipy"] / SCIPY_PAIRS * n * n
    slow = networkx_seconds(maps) * n * n
    flow = max_flow(maps)
    print(f"  {name:18} {layers:2} x {n}: {1000 * ours:6.1f} ms, gap {flow.gap:.0e} ({shares(flow)})")
    print(f"      SciPy {scipy:8.1f} s: {scipy / ours:9,.0f} times ours (from {SCIPY_PAIRS} pairs)")
    print(f"      networkx {slow:8.0f} s: {slow / ours:9,.0f} times ours (from 1 pair)", flush=True)


def main() -> None:
    start = time.perf_counter()
    max_flow(random_attention(4, 5))
    print(f"compiling, or loading what was compiled before: {time.perf_counter() - start:.1f} s")
    print("all pairs (goal: 300 times SciPy, 10,000 times networkx)")
    compare("the model's own", real_attention())
    for layers in (6, 12):
        compare("random", random_attention(layers, 64))
    compare("random, causal", random_attention(6, 64, causal=True))
    print("growth, 12 layers (goal: 60 s and 2,048 MB at 512 tokens); peak of this process so far")
    for n in (32, 64, 128, 256, 512):
        for name, causal in (("random", False), ("causal", True)):
            maps = random_attention(12, n, causal)
            start = time.perf_counter()
            flow = max_flow(maps)
            took = time.perf_counter() - start
            peak = own_peak_megabytes()
            print(
                f"  {name} 12 x {n:3}: {took:7.3f} s, {peak:5.0f} MB, gap {flow.gap:.0e} ({shares(flow)})", flush=True
            )


if __name__ == "__main__":
    main()
