"""The statistics of the experiment with identifiable encoders."""

import numpy as np

from papers.write_identifiable import interval, verdict


def test_interval_when_runs_and_texts_both_vary_then_covers_at_its_rate() -> None:
    """Three runs with a random effect each: the true mean is 0.5, and about 95 % of the intervals must contain it."""
    chance = np.random.default_rng(0)
    held = []
    for _ in range(400):
        rates = 0.5 + 0.03 * chance.normal(size=(3, 1)) + 0.2 * chance.normal(size=(1, 200))
        mean, reach = interval((chance.random((3, 200)) < rates).astype(float))
        held.append(abs(mean - 0.5) <= reach)
    assert 0.93 <= np.mean(held) <= 0.995


def test_verdict_when_an_interval_is_given_then_names_the_difference() -> None:
    assert verdict(0.002, 0.005) == "equal within a point"
    assert verdict(0.02, 0.01) == "add is better"
    assert verdict(-0.02, 0.01) == "con is better"
    assert verdict(0.02, 0.03) == "no significant difference"
