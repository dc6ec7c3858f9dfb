"""Rates with intervals that know that the tokens of one sentence are not independent."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.stats import t as student
from torch import Tensor

LEVEL = 0.95


@dataclass(frozen=True)
class Rate:
    """A share of hits with its interval, which always holds it."""

    rate: float
    low: float
    high: float


@dataclass(eq=False)
class Tally:
    """Sums over sentences, from which rate and interval follow: hits h, tokens n, and their products.

    Their memory does not depend on how many sentences were counted.
    """

    sentences: int = 0
    tokens: float = 0.0
    hits: float = 0.0
    hits_hits: float = 0.0
    hits_tokens: float = 0.0
    tokens_tokens: float = 0.0

    def add(self, hits: Float[Tensor, " token"]) -> None:
        """One sentence: for each of its tokens a hit between 0 and 1."""
        if len(hits) == 0:
            return
        hit, count = float(hits.sum(dtype=torch.float64)), len(hits)
        self.sentences += 1
        self.tokens += count
        self.hits += hit
        self.hits_hits += hit * hit
        self.hits_tokens += hit * count
        self.tokens_tokens += count * count

    def rate(self) -> Rate:
        """Wilson's interval with the number of tokens replaced by what they are worth, sentence by sentence.

        p = Σh/Σn has the variance v = S/(S−1) · Σ(h − p n)² / (Σn)² over S sentences (a ratio of sums, linearised),
        so that the tokens are worth p(1−p)/v independent ones, and at most as many as there are. Where no sentence
        differs from another (p = 0, p = 1) a sentence is worth one. The quantile is Student's with S − 1 degrees.
        """
        p = self.hits / self.tokens
        if self.sentences < 2:
            return Rate(p, 0.0, 1.0)
        squares = self.hits_hits - 2 * p * self.hits_tokens + p * p * self.tokens_tokens
        variance = self.sentences / (self.sentences - 1) * max(squares, 0.0) / self.tokens**2
        certain = not 0 < p < 1
        worth = self.sentences if certain else self.tokens
        if variance > 0 and not certain:
            worth = min(worth, p * (1 - p) / variance)
        z = float(student.ppf(0.5 + LEVEL / 2, self.sentences - 1))
        centre = (p + z * z / (2 * worth)) / (1 + z * z / worth)
        reach = z / (1 + z * z / worth) * (p * (1 - p) / worth + z * z / (4 * worth * worth)) ** 0.5
        return Rate(p, max(0.0, min(p, centre - reach)), min(1.0, max(p, centre + reach)))
