"""Attention flow, all pairs: our time against a SciPy loop and networkx, and how it grows with
length.

    python benchmarks/flow.py              # ratios at 6 x 64 and 12 x 64, then growth from 32 to
    512 tokens python benchmarks/flow.py --quick      # ratios only

All times come from one run on one machine; SciPy and networkx are timed on a sample of pairs and
extrapolated to all of them. Compile time is paid once, before anything is measured, and printed.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from thalweg.aggregate.max_flow import max_flow

TEXT = "The river ran low that summer, and the boats that came up from the coast kept to the thalweg. "


def with_residual(weights: np.ndarray) -> np.ndarray:
    """[layer head query key] -> [layer query key], as Abnar and Zuidema build the graph."""
    return 0.5 * weights.mean(1) + 0.5 * np.eye(weights.shape[-1])


def random_attention(layers: int, n: int, heads: int = 4, width: int = 16) -> np.ndarray:
    """Softmax attention of random queries and keys."""
    rng = np.random.default_rng(0)
    maps = np.empty((layers, n, n))
    for layer in maps:
        query, key = rng.normal(size=(2, heads, n, width))
        weights = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(width))
        layer[:] = with_residual((weights / weights.sum(-1, keepdims=True))[None])[0]
    return maps


def peaked_attention(layers: int, n: int) -> np.ndarray:
    """Rows from a Dirichlet distribution of low concentration: a few large weights, many near
    zero."""
    rng = np.random.default_rng(0)
    return np.stack([with_residual(rng.dirichlet(np.full(n, 0.1), (1, 1, n)))[0] for _ in range(layers)])


def real_attention(n: int) -> np.ndarray | None:
    """Attention of the model that ships, or None while there is none: [layer query key]."""
    folder = Path(__file__).parents[1] / "src" / "thalweg" / "models" / "default"
    if not (folder / "config.json").exists():
        return None
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = AutoTokenizer.from_pretrained(folder)(TEXT * n, truncation=True, max_length=n, return_tensors="pt")
    with torch.no_grad():
        weights = model(**tokens, output_attentions=True).attentions
    return with_residual(torch.cat(weights, 0).double().numpy())


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The fastest of a few runs: other jobs on the machine only ever add time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def sample_pairs(n: int, count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, n, (count, 2))


def scipy_seconds(maps: np.ndarray, count: int) -> float:
    """Bare loop over maximum_flow, graph built once; extrapolated to all pairs."""
    layers, n, _ = maps.shape
    graph = np.zeros(((layers + 1) * n,) * 2, np.int32)
    for level, layer in enumerate(maps):
        graph[(level + 1) * n : (level + 2) * n, level * n : (level + 1) * n] = layer * 2**24
    graph = csr_array(graph)
    pairs = sample_pairs(n, count)
    took = seconds(lambda: [maximum_flow(graph, int(layers * n + i), int(j)) for i, j in pairs], 2)
    return took / count * n * n


def networkx_seconds(maps: np.ndarray, count: int) -> float:
    """Edmonds-Karp as in the authors' code (without its zero edges); extrapolated to all pairs."""
    graph = nx.DiGraph()
    for level, layer in enumerate(maps):
        for (up, down), capacity in np.ndenumerate(layer):
            if capacity > 0:
                graph.add_edge((level + 1, up), (level, down), capacity=capacity)
    n = maps.shape[1]
    solver = nx.algorithms.flow.edmonds_karp
    pairs = sample_pairs(n, count)
    top = len(maps)
    took = seconds(
        lambda: [nx.maximum_flow_value(graph, (top, i), (0, j), flow_func=solver) for i, j in pairs],
        1,
    )
    return took / count * n * n


def report(name: str, maps: np.ndarray, repeats: int = 3) -> float:
    flow = max_flow(maps)
    took = seconds(lambda: max_flow(maps), repeats)
    shares = ", ".join(f"{k} {v / flow.value.size:.1%}" for k, v in flow.certified_by.items() if v)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    layers, n, _ = maps.shape
    head = f"{name:8} {layers:2} x {n:3}  {took:9.4f} s"
    print(f"{head}  gap {flow.gap:.0e}  peak {peak:5.0f} MB  {shares}", flush=True)
    return took


def compare(name: str, theirs: float, pairs: int, ours: float) -> None:
    ratio = f"{theirs / ours:10.0f} times ours"
    print(f"    {name:12} {theirs:10.1f} s, extrapolated from {pairs} pair(s): {ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ratios only")
    quick = parser.parse_args().quick

    start = time.perf_counter()
    max_flow(random_attention(4, 5))
    print(f"compiling (or loading from the cache) took {time.perf_counter() - start:.1f} s\n")

    cases = {"random": random_attention, "peaked": peaked_attention}
    for layers in (6, 12):
        for name, attention in cases.items():
            maps = attention(layers, 64)
            ours = report(name, maps, 5)
            scipy, slow = scipy_seconds(maps, 60), networkx_seconds(maps, 1)
            compare("SciPy loop", scipy, 60, ours)
            compare("networkx", slow, 1, ours)
    real = real_attention(64)
    if real is None:
        print("no model ships yet: no ratio on real attention")
    else:
        ours, scipy = report("real", real, 5), scipy_seconds(real, 60)
        compare("SciPy loop", scipy, 60, ours)
    if quick:
        return
    print("\ngrowth with length")
    for n in (32, 64, 128, 256, 512):
        for layers in (6, 12):
            for name, attention in cases.items():
                report(name, attention(layers, n), 3 if n < 256 else 1)
        if (real := real_attention(n)) is not None and real.shape[1] == n:
            report("real", real, 3 if n < 256 else 1)


if __name__ == "__main__":
    main()
