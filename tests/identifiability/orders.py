"""What really can move in a head, by linear programs: the reference for the order of misleading heads."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import spearmanr

from thalweg.capture.record import Capture
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.movable import sampled_rows
from thalweg.identifiability.polytope import Polytope, polytope, total_variation

Exact = Callable[[Capture, int], list[float]]  # a figure of each head, in every n-th sampled row
LARGEST = 4  # weights of a row whose exact interval is computed


def exact_widths(capture: Capture, step: int) -> list[float]:
    """For each head, the mean width of the exact intervals of its largest weights, in every `step`-th sampled row."""

    def width(row: Polytope) -> float:
        ranges = [row.interval(int(key)) for key in np.argsort(-row.weights)[:LARGEST]]
        return float(np.mean([high.value - low.value for low, high in ranges]))

    return _means(capture, step, width)


def farthest_moves(capture: Capture, step: int) -> list[float]:
    """For each head, the mean total variation of the farthest alternative, in every `step`-th sampled row."""
    return _means(capture, step, lambda row: total_variation(row.weights, row.farthest()[0]))


def _means(capture: Capture, step: int, figure: Callable[[Polytope], float]) -> list[float]:
    means = []
    for block in capture.blocks:
        space, weights = value_space(block), block.weights()
        queries = sampled_rows(weights.shape[1])[step // 2 :: step].tolist()
        for head in range(block.attention.heads):
            rows = [figure(polytope(space, head, query, weights[head, query])) for query in queries]
            means.append(float(np.mean(rows)))
    return means


def agreement(captures: Sequence[Capture], reference: list[float]) -> float:
    """Rank correlation of the heads' movable mass with the reference."""
    movable = [head.movable for capture in captures for head in certify(capture).heads]
    return float(spearmanr(movable, reference)[0])  # pyright: ignore[reportArgumentType]
