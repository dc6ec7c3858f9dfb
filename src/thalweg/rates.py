"""Rates with intervals that account for the dependence of tokens within a sentence."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.stats import t as student
from torch import Tensor

LEVEL = 0.95  # confidence


@dataclass(frozen=True)
class Rate:
    """A share of hits with an interval that contains it."""

    rate: float
    low: float
    high: float


@dataclass(eq=False)
class Tally:
    """Sums over sentences that give rate and interval: hits h, tokens n, and their products.

    Memory does not grow with the number of sentences.
    """

    sentences: int = 0
    tokens: float = 0.0
    hits: float = 0.0
    hits_hits: float = 0.0
    hits_tokens: float = 0.0
    tokens_tokens: float = 0.0

    def add(self, hits: Float[Tensor, " token"]) -> None:
        """Add a sentence, with a hit between 0 and 1 for each of its tokens."""
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
        """Wilson's interval for the effective number of independent tokens.

        p = Σh/Σn has the variance v = S/(S−1) · Σ(h − p n)² / (Σn)² over S sentences (a ratio of sums, linearised).
        The effective number is p(1−p)/v, at most the number of tokens. If p is 0 or 1, no sentence differs from
        another, and each counts as one token. The quantile is Student's t with S − 1 degrees of freedom.
        """
        p = self.hits / self.tokens
        if self.sentences < 2:
            return Rate(p, 0.0, 1.0)
        squares = self.hits_hits - 2 * p * self.hits_tokens + p * p * self.tokens_tokens
        variance = self.sentences / (self.sentences - 1) * max(squares, 0.0) / self.tokens**2
        certain = not 0 < p < 1
        effective = self.sentences if certain else self.tokens
        if variance > 0 and not certain:
            effective = min(effective, p * (1 - p) / variance)
        z = float(student.ppf(0.5 + LEVEL / 2, self.sentences - 1))
        centre = (p + z * z / (2 * effective)) / (1 + z * z / effective)
        reach = z / (1 + z * z / effective) * (p * (1 - p) / effective + z * z / (4 * effective * effective)) ** 0.5
        return Rate(p, max(0.0, min(p, centre - reach)), min(1.0, max(p, centre + reach)))
