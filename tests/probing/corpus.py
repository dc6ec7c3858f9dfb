"""Sentences over the words of the tiny tokenizers, and a comparison of the probes fitted on them."""

import random

import torch

from tests.tiny import WORDS
from thalweg.probing.mlp import MlpMap
from thalweg.probing.result import Probes

NOUNS = [word for word in WORDS if word.isalpha() and word.isascii()]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Distinct sentences of four to nine words."""
    rng = random.Random(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        distinct[" ".join(rng.choices(NOUNS, k=rng.randint(4, 9)))] = None
    return list(distinct)


def same_mlps(first: Probes, second: Probes) -> bool:
    """Whether two runs have bitwise equal MLPs and equal rates."""
    pairs = zip(first.maps.values(), second.maps.values(), strict=True)
    mlps = [(a.leave, b.leave) for a, b in pairs if isinstance(a, MlpMap) and isinstance(b, MlpMap)]
    return bool(mlps) and all(torch.equal(a, b) for a, b in mlps) and first.rates == second.rates
