"""Agreement between methods: rank correlations, and the tokens that two methods rank furthest apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from thalweg.faithfulness.statistics import Mean, means
from thalweg.ranks import centred_ranks, correlations

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
        pairwise = correlations(ranks)
        middle = (len(example.tokens) + 1) / 2  # added, ranks count from 1
        for column, (first, second) in enumerate(pairs):
            table[number, column] = pairwise[first, second]
            apart[column] += _furthest(example, ranks[first] + middle, ranks[second] + middle)
    return [
        MethodAgreement(
            methods[first],
            methods[second],
            mean,
            tuple(sorted(tokens, key=lambda token: (-token.size, token.example))[:SHOWN_TOKENS]),
        )
        for (first, second), mean, tokens in zip(pairs, means(table, seed, (-1.0, 1.0)), apart, strict=True)
    ]


def _ranks(example: ExampleScores, methods: Sequence[str]) -> Float[np.ndarray, "method token"]:
    """Centred ranks, lowest for the highest score, with NaN for a method that failed."""
    failed = [np.nan] * len(example.tokens)
    return centred_ranks(-np.array([example.scores.get(name, failed) for name in methods]))


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
