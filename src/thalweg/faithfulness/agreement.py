"""Agreement between methods: rank correlations, and the tokens that two methods rank furthest apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from thalweg.faithfulness.statistics import Mean, means

SHOWN_TOKENS = 5  # per pair of methods


@dataclass(frozen=True)
class Disagreement:
    """A token that two methods rank differently; rank 1 is the highest of `count`."""

    example: int
    token: str
    first_rank: float
    second_rank: float
    count: int

    @property
    def size(self) -> float:
        """The difference in rank, from 0 to 1."""
        return abs(self.first_rank - self.second_rank) / max(self.count - 1, 1)


@dataclass(frozen=True)
class MethodAgreement:
    """Spearman's correlation between two methods' scores, averaged over inputs, and their largest disagreements."""

    first: str
    second: str
    correlation: Mean
    tokens: tuple[Disagreement, ...]


@dataclass(frozen=True, eq=False)
class ExampleScores:
    """The scores of several methods for the tokens of one example."""

    example: int
    tokens: Sequence[str]
    scores: Mapping[str, Sequence[float]]  # by method


def agreements(examples: Sequence[ExampleScores], methods: Sequence[str], seed: int) -> list[MethodAgreement]:
    """Agreement of every pair of methods."""
    if len(methods) < 2 or not examples:
        return []
    pairs = list(combinations(range(len(methods)), 2))
    table = np.full((len(examples), len(pairs)), np.nan)
    apart: list[list[Disagreement]] = [[] for _ in pairs]
    for number, example in enumerate(examples):
        ranks = _ranks(example, methods)
        correlations = _correlations(ranks)
        for column, (first, second) in enumerate(pairs):
            table[number, column] = correlations[first, second]
            apart[column] += _furthest(example, ranks[first], ranks[second])
    return [
        MethodAgreement(
            methods[first],
            methods[second],
            mean,
            tuple(sorted(tokens, key=lambda token: (-token.size, token.example))[:SHOWN_TOKENS]),
        )
        for (first, second), mean, tokens in zip(pairs, means(table, seed), apart, strict=True)
    ]


def _ranks(example: ExampleScores, methods: Sequence[str]) -> Float[np.ndarray, "method token"]:
    """Ranks from 1, the highest, with NaN for a method that failed."""
    failed = np.full(len(example.tokens), np.nan)
    return np.stack(
        [rankdata(-np.array(example.scores[name])) if name in example.scores else failed for name in methods]
    )


def _correlations(ranks: Float[np.ndarray, "method token"]) -> Float[np.ndarray, "method method"]:
    """Correlations of all pairs of methods; NaN for a method that failed or is constant."""
    centred = ranks - ranks.mean(1, keepdims=True)
    size = np.linalg.norm(centred, axis=1, keepdims=True)
    size[size == 0] = np.nan
    return (centred / size) @ (centred / size).T


def _furthest(
    example: ExampleScores, first: Float[np.ndarray, " token"], second: Float[np.ndarray, " token"]
) -> list[Disagreement]:
    gap = np.abs(first - second)
    if np.isnan(gap).any() or not gap.size or gap.max() == 0:
        return []
    largest = [int(place) for place in np.argsort(-gap, kind="stable")[:SHOWN_TOKENS]]
    count = len(example.tokens)
    return [
        Disagreement(example.example, example.tokens[place], float(first[place]), float(second[place]), count)
        for place in largest
        if gap[place] > 0
    ]
