"""How far methods agree with each other, and on which tokens they do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from thalweg.faithfulness.statistics import Mean, means

SHOWN = 5  # tokens that are named for each pair


@dataclass(frozen=True)
class Disagreement:
    """A token that two methods rank apart; a rank of 1 is the highest of `count`."""

    example: int
    token: str
    first_rank: float
    second_rank: float
    count: int

    @property
    def size(self) -> float:
        return abs(self.first_rank - self.second_rank) / max(self.count - 1, 1)


@dataclass(frozen=True)
class Agreement:
    """Spearman's correlation between two methods' scores, a mean over inputs, and where they are furthest apart."""

    first: str
    second: str
    correlation: Mean
    tokens: tuple[Disagreement, ...]


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of several methods for the tokens of one example."""

    example: int
    tokens: Sequence[str]
    scores: Mapping[str, Sequence[float]]


def agreements(scored: Sequence[Scored], methods: Sequence[str], seed: int) -> list[Agreement]:
    """Of every two methods."""
    if len(methods) < 2 or not scored:
        return []
    pairs = [(a, b) for a in range(len(methods)) for b in range(a + 1, len(methods))]
    table = np.full((len(scored), len(pairs)), np.nan)
    apart: list[list[Disagreement]] = [[] for _ in pairs]
    for number, one in enumerate(scored):
        ranks = _ranks(one, methods)
        centred = ranks - ranks.mean(1, keepdims=True)
        size = np.linalg.norm(centred, axis=1, keepdims=True)
        size[size == 0] = np.nan
        found = (centred / size) @ (centred / size).T
        for place, (first, second) in enumerate(pairs):
            table[number, place] = found[first, second]
            apart[place] += _furthest(one, ranks[first], ranks[second])
    return [
        Agreement(
            methods[first],
            methods[second],
            mean,
            tuple(sorted(tokens, key=lambda token: (-token.size, token.example))[:SHOWN]),
        )
        for (first, second), mean, tokens in zip(pairs, means(table, seed), apart, strict=True)
    ]


def _ranks(one: Scored, methods: Sequence[str]) -> Float[np.ndarray, "method token"]:
    """Ranks from 1, the highest, with NaN for a method that failed."""
    nothing = np.full(len(one.tokens), np.nan)
    return np.stack([rankdata(-np.array(one.scores[m])) if m in one.scores else nothing for m in methods])


def _furthest(
    one: Scored, first: Float[np.ndarray, " token"], second: Float[np.ndarray, " token"]
) -> list[Disagreement]:
    gap = np.abs(first - second)
    if np.isnan(gap).any() or not gap.size or gap.max() == 0:
        return []
    best = [int(place) for place in np.argsort(-gap, kind="stable")[:SHOWN]]
    return [
        Disagreement(one.example, one.tokens[place], float(first[place]), float(second[place]), len(one.tokens))
        for place in best
        if gap[place] > 0
    ]
