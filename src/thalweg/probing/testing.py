"""Ask probes for the tokens of sentences that they have not seen."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from thalweg.models.load import Subject
from thalweg.probing.plan import BATCH, Candidates, Key, Match, Split, batches
from thalweg.probing.recover import Map, search
from thalweg.probing.states import States, read_states, vocabulary_size
from thalweg.progress import progress
from thalweg.rates import Rate, Tally


def measure(
    subject: Subject, split: Split, keys: Sequence[Key], maps: Mapping[Key, Map], candidates: Candidates
) -> tuple[dict[tuple[Key, Match], Rate], dict[Match, float], int]:
    """Rates on the test sentences, the chance of a hit by drawing lots, and how many tokens were asked for."""
    ways: tuple[Match, Match] = ("strict", "lenient")
    tallies: dict[tuple[Key, Match], Tally] = {(key, way): Tally() for key in keys for way in ways}
    chance: dict[Match, Tally] = {way: Tally() for way in ways}
    with progress("testing") as report:
        for number, some in enumerate(batches(split.test), 1):
            states = read_states(subject, some)
            found = search(subject, keys, maps, states, candidates)
            lots = _lots(subject, states, candidates)
            for text in states.texts:
                asked = ~states.special[text]
                for way, lot in zip(ways, lots, strict=True):
                    chance[way].add(lot[text][asked])
                for key in keys:
                    for way, nearest in zip(ways, found[key], strict=True):
                        tallies[key, way].add(nearest.hits[text][asked])
            report(number * BATCH, len(split.test))
    rates = {which: tally.rate() for which, tally in tallies.items()}
    means: dict[Match, float] = {way: tally.rate().rate for way, tally in chance.items()}
    return rates, means, int(chance["strict"].tokens)


def _lots(subject: Subject, states: States, candidates: Candidates) -> tuple[Tensor, Tensor]:
    """Of each token the share of candidates that would be right: one of them, or those with its id."""
    if candidates == "vocabulary":
        even = torch.full(states.ids.shape, 1 / vocabulary_size(subject))
        return even, even
    strict, lenient = [], []
    for text in states.texts:
        ids = states.ids[text]
        strict.append(torch.full(ids.shape, 1 / len(ids)))
        lenient.append((ids[:, None] == ids[None]).double().mean(1).float())
    return torch.cat(strict), torch.cat(lenient)
