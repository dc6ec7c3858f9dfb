"""Test probes on the tokens of held-out sentences."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from thalweg.models.subject import Subject
from thalweg.probing.plan import BATCH_SENTENCES, Candidates, Match, ProbeKey, SentenceSplit, sentence_batches
from thalweg.probing.recover import ProbeMap, search
from thalweg.probing.states import HiddenStates, read_states, vocabulary_size
from thalweg.progress import progress
from thalweg.rates import Rate, Tally


def measure(
    subject: Subject,
    split: SentenceSplit,
    keys: Sequence[ProbeKey],
    maps: Mapping[ProbeKey, ProbeMap],
    candidates: Candidates,
) -> tuple[dict[tuple[ProbeKey, Match], Rate], dict[Match, float], int]:
    """Rates on the test sentences, the rate of guessing at random, and the number of tokens tested."""
    matches: tuple[Match, Match] = ("strict", "lenient")
    tallies: dict[tuple[ProbeKey, Match], Tally] = {(key, match): Tally() for key in keys for match in matches}
    chance: dict[Match, Tally] = {match: Tally() for match in matches}
    with progress("testing") as report:
        for number, texts in enumerate(sentence_batches(split.test), 1):
            states = read_states(subject, texts)
            nearest = search(subject, keys, maps, states, candidates)
            guesses = guess_rates(states, vocabulary_size(subject) if candidates == "vocabulary" else None)
            for text in states.texts:
                counted = ~states.special[text]
                for match, guess in zip(matches, guesses, strict=True):
                    chance[match].add(guess[text][counted])
                for key in keys:
                    for match, hits in zip(matches, nearest[key], strict=True):
                        tallies[key, match].add(hits.hits[text][counted])
            report(number * BATCH_SENTENCES, len(split.test))
    rates = {key_and_match: tally.rate() for key_and_match, tally in tallies.items()}
    means: dict[Match, float] = {match: tally.rate().rate for match, tally in chance.items()}
    return rates, means, int(chance["strict"].tokens)


def guess_rates(states: HiddenStates, vocabulary: int | None) -> tuple[Tensor, Tensor]:
    """For each token the share of candidates that are correct: one of them (strict), or all with its id (lenient).

    Candidates are the words of a vocabulary of this size, or the tokens of the same text.
    """
    if vocabulary is not None:
        even = torch.full(states.ids.shape, 1 / vocabulary)
        return even, even
    strict, lenient = [], []
    for text in states.texts:
        ids = states.ids[text]
        strict.append(torch.full(ids.shape, 1 / len(ids)))
        lenient.append((ids[:, None] == ids[None]).double().mean(1).float())
    return torch.cat(strict), torch.cat(lenient)
