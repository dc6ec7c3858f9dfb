"""Intervals by sentence cover the true rate at their level, also if the tokens of a sentence are dependent."""

import torch

from thalweg.rates import Tally


def tallied(sentences: list[list[float]]) -> Tally:
    tally = Tally()
    for hits in sentences:
        tally.add(torch.tensor(hits))
    return tally


def covered(spread: float, sentences: int, seed: int) -> float:
    """The share of simulated corpora whose interval contains the true rate."""
    generator = torch.Generator().manual_seed(seed)
    held = 0
    for _ in range(400):
        tally = Tally()
        for _ in range(sentences):
            length = int(torch.randint(5, 30, (1,), generator=generator))
            own = 0.8 + spread * (2 * float(torch.rand(1, generator=generator)) - 1)
            tally.add((torch.rand(length, generator=generator) < own).float())
        rate = tally.rate()
        held += rate.low <= 0.8 <= rate.high
    return held / 400


def test_intervals_when_sentences_differ_then_cover_the_true_rate_at_their_level() -> None:
    for seed, (spread, sentences) in enumerate([(0.0, 40), (0.2, 40), (0.2, 12)]):
        assert 0.92 <= covered(spread, sentences, seed) <= 0.99


def test_interval_when_tokens_of_a_sentence_are_copies_then_is_that_of_single_tokens() -> None:
    alone = tallied([[float(n % 4 > 0)] for n in range(40)]).rate()
    copies = tallied([[float(n % 4 > 0)] * 25 for n in range(40)]).rate()
    assert (copies.rate, copies.low, copies.high) == (alone.rate, alone.low, alone.high)


def test_interval_when_everything_is_a_hit_then_still_has_a_width() -> None:
    rate = tallied([[1.0] * 10] * 30).rate()
    assert rate.rate == rate.high == 1.0
    assert 0.8 < rate.low < 0.95


def test_interval_when_there_is_one_sentence_then_covers_everything() -> None:
    rate = tallied([[1.0, 0.0]]).rate()
    assert (rate.rate, rate.low, rate.high) == (0.5, 0.0, 1.0)


def test_tally_when_sentences_are_added_then_holds_six_numbers() -> None:
    assert len(vars(tallied([[0.0]] * 100))) == 6
