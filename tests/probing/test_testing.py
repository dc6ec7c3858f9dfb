"""Testing probes: chance, and rates that must hold for any model."""

from dataclasses import replace

import pytest
import torch

import thalweg as tw
from tests.probing.corpus import sentences
from thalweg.probing.result import Probes
from thalweg.probing.states import read_states
from thalweg.probing.testing import guess_rates


def test_guesses_when_ids_repeat_then_lenient_counts_all_of_them(bert: tw.Subject) -> None:
    states = replace(
        read_states(bert, sentences(1)),
        layers=torch.zeros(1, 5, 2),
        ids=torch.tensor([7, 7, 8, 9, 5]),
        special=torch.zeros(5, dtype=torch.bool),
        texts=(slice(0, 4), slice(4, 5)),
    )
    strict, lenient = guess_rates(states, None)
    assert strict.tolist() == [0.25, 0.25, 0.25, 0.25, 1.0]
    assert lenient.tolist() == [0.5, 0.5, 0.25, 0.25, 1.0]
    assert guess_rates(states, 50)[0].tolist() == pytest.approx([1 / 50] * 5)


def test_rates_when_measured_then_lenient_is_at_least_strict_and_intervals_contain_them(probes: Probes) -> None:
    assert len(probes.rates) == 4 * 3 * 2 * 3 * 2  # layers, kinds, metrics, parts, matches
    for (key, match), rate in probes.rates.items():
        assert 0 <= rate.low <= rate.rate <= rate.high <= 1
        assert probes.rates[key, "lenient"].rate >= probes.rates[key, "strict"].rate or match == "lenient"
    assert probes.chance["lenient"] >= probes.chance["strict"] > 0
