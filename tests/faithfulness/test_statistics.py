"""Intervals cover at their rate, tests find what is there and not what is not, corrections are Holm's."""

from itertools import product

import numpy as np
import pytest

from thalweg.faithfulness.registry import list_metrics
from thalweg.faithfulness.statistics import Mean, Pair, holm, means, pairs, sign_flips
from thalweg.faithfulness.verdicts import judged

METRIC = list_metrics()["aopc_delete"]


@pytest.mark.parametrize(
    ("count", "kind"),
    [(2, "normal"), (3, "normal"), (5, "normal"), *((n, kind) for n in (10, 40) for kind in ("normal", "uniform"))],
)
def test_interval_when_data_are_simulated_then_covers_at_its_rate(count: int, kind: str) -> None:
    """Within three standard errors of 0.95 over 1500 simulations, and a little allowed for few inputs."""
    chance = np.random.default_rng(0)
    draw = chance.normal(1, 2, (count, 1500)) if kind == "normal" else chance.uniform(0, 2, (count, 1500))
    covered = np.mean([one.low <= 1 <= one.high for one in means(draw)])
    assert 0.93 <= covered <= 0.97


def test_interval_when_the_same_seed_then_is_the_same_and_holds_the_mean() -> None:
    values = np.random.default_rng(1).exponential(size=(25, 3))
    first, second = means(values, 4), means(values, 4)
    assert first == second
    assert all(one.low <= one.mean <= one.high and one.count == 25 for one in first)


def test_mean_when_values_are_missing_then_leaves_them_out() -> None:
    values = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan], [3.0, 5.0]])
    found = means(values)
    assert (found[0].mean, found[0].count) == (2.0, 3)
    assert (found[1].mean, found[1].count, found[1].high) == (5.0, 1, np.inf)
    assert means(np.full((3, 1), np.nan))[0].count == 0


def test_sign_flips_when_few_then_equal_all_signs_tried_by_hand() -> None:
    values = np.array([0.3, -0.1, 0.5, 0.2, 0.4, -0.2, 0.1])
    sums = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=7)]
    expected = np.mean([one >= abs(values.sum()) - 1e-9 for one in sums])
    assert sign_flips(values[:, None])[0] == pytest.approx(expected)


def test_sign_flips_when_nothing_differs_or_too_little_is_known_then_is_one() -> None:
    assert sign_flips(np.zeros((20, 1)))[0] == 1
    assert sign_flips(np.ones((5, 1)))[0] == 1


def test_sign_flips_when_there_is_no_difference_then_alarm_at_their_rate() -> None:
    noise = np.random.default_rng(3).normal(size=(30, 400))
    assert 0.02 <= np.mean(sign_flips(noise) < 0.05) <= 0.08


def test_holm_when_by_hand_then_never_falls_and_never_exceeds_one() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.5])) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm(np.array([0.6, 0.9])) == pytest.approx([1.0, 1.0])


def test_pairs_when_many_then_a_clear_difference_is_still_found() -> None:
    """With 9,999 flips alone, 300 pairs could never be told apart: the smallest p times 300 is 0.03 at best."""
    chance = np.random.default_rng(5)
    table = {f"m{n}": chance.normal(size=40) for n in range(25)} | {"better": chance.normal(5, 1, size=40)}
    names = list(table)
    asked = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    found = pairs(table, asked, 0)
    assert all(pair.differ for pair in found if "better" in (pair.first, pair.second))
    assert sum(pair.differ for pair in found if "better" not in (pair.first, pair.second)) <= 1


def verdict_of(table: dict[str, np.ndarray]) -> tuple[str, tuple[str, ...]]:
    names = list(table)
    asked = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    found = dict(zip(names, means(np.stack(list(table.values()), 1)), strict=True))
    judgement = judged(METRIC, found, pairs(table, asked, 0))
    return judgement.said, judgement.equal


def test_verdict_when_there_is_no_difference_then_says_so_at_its_rate() -> None:
    """With three methods alike and all pairs tested, a difference is claimed in about one of twenty runs, not more."""
    chance = np.random.default_rng(7)
    names = ("alti", "flow", "random")
    said = [verdict_of(dict(zip(names, chance.normal(size=(3, 20)), strict=True)))[0] for _ in range(150)]
    none = sum(one == "no difference found between any two of the 3 methods" for one in said)
    assert none >= 0.90 * len(said)


def test_verdict_when_two_lead_together_then_names_both() -> None:
    noise = np.random.default_rng(8).normal(size=(40, 3))
    said, equal = verdict_of({"alti": noise[:, 0] + 4, "flow": noise[:, 1] + 4, "random": noise[:, 2]})
    assert "has the highest mean; no difference found from" in said
    assert len(equal) == 1
    assert "random" not in equal


def test_verdict_when_one_leads_then_says_it_is_above_each() -> None:
    noise = np.random.default_rng(9).normal(size=(40, 3))
    said, equal = verdict_of({"alti": noise[:, 0] + 4, "flow": noise[:, 1], "random": noise[:, 2]})
    assert said == "alti is higher than each of the 2 others"
    assert equal == ()


def test_verdict_when_lower_is_better_then_the_lowest_leads() -> None:
    known = {"alti": Mean(-0.1, -0.2, 0.0, 9), "random": Mean(0.3, 0.2, 0.4, 9)}
    pair = Pair("alti", "random", Mean(-0.4, -0.5, -0.3, 9), 0.001, 0.001)
    found = judged(list_metrics()["sufficiency_delete"], known, [pair])
    assert (found.leader, found.said) == ("alti", "alti is lower than the other")


def test_gate_when_scores_survive_shuffled_weights_then_the_method_fails() -> None:
    known = {"stubborn": Mean(0.9, 0.8, 1.0, 9), "open": Mean(0.5, 0.3, 0.7, 9), "good": Mean(0.1, 0.0, 0.2, 9)}
    found = judged(list_metrics()["randomisation"], known, [])
    assert found.failed == ("stubborn",)
    assert "not decided: open" in found.said


def test_verdict_when_so_few_inputs_could_show_nothing_then_says_that_too() -> None:
    noise = np.random.default_rng(3).normal(size=(4, 2))
    said, _ = verdict_of({"alti": noise[:, 0] + 100, "random": noise[:, 1]})
    assert said.endswith("so few inputs could not have shown any")
    many = np.random.default_rng(3).normal(size=(30, 2))
    assert verdict_of({"alti": many[:, 0], "random": many[:, 1]})[0].endswith("of the 2 methods")


def test_verdict_when_the_best_mean_rests_on_easier_inputs_then_does_not_claim_to_be_better() -> None:
    """Where both have values flow is higher every time; alti has values for the easy inputs only."""
    easy = np.arange(30) < 15
    level = np.where(easy, 5.0, 0.0) + np.random.default_rng(0).normal(0, 0.1, 30)
    said, _ = verdict_of({"alti": np.where(easy, level, np.nan), "flow": level + 1})
    assert said == "alti has the highest mean, but on the inputs that both have, flow is better"


def test_interval_when_data_are_skewed_then_is_not_far_from_its_rate() -> None:
    """Exponential numbers, of which 40 are drawn: a percentile interval covers a little less than it says."""
    draw = np.random.default_rng(2).exponential(1, (40, 1500))
    covered = np.mean([one.low <= 1 <= one.high for one in means(draw)])
    assert 0.915 <= covered <= 0.97


def test_verdict_when_no_two_differ_then_nothing_is_like_random() -> None:
    """That would only name all methods again."""
    many = np.random.default_rng(3).normal(size=(30, 2))
    table = {"alti": many[:, 0], "random": many[:, 1]}
    for shift, differ, alike in ((0.0, False, ()), (9.0, True, ("flow",))):
        known = {**table, "alti": table["alti"] + shift, "flow": many[::-1, 1].copy()}
        asked = [("alti", "random"), ("alti", "flow"), ("random", "flow")]
        found = dict(zip(known, means(np.stack(list(known.values()), 1)), strict=True))
        judgement = judged(METRIC, found, pairs(known, asked, 0))
        assert (judgement.differ, judgement.like_random) == (differ, alike)
