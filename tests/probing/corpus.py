"""Sentences over the words of the tiny tokenizers."""

import random

from tests.tiny import WORDS

NOUNS = [word for word in WORDS if word.isalpha() and word.isascii()]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Distinct sentences of four to nine words."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(chance.choices(NOUNS, k=chance.randint(4, 9)))] = None
    return list(found)
