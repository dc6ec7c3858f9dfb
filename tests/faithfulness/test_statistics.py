"""Intervals have their coverage, tests their error rate, and the correction is Holm's."""

from itertools import combinations, product

import numpy as np
import pytest

from thalweg.faithfulness.registry import Metric, list_metrics
from thalweg.faithfulness.statistics import Limits, holm, means, paired_tests, sign_flips

PROBABILITY, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)  # limits of the answer, without and with a foil


@pytest.mark.parametrize(
    ("count", "kind"),
    [(2, "normal"), (3, "normal"), (5, "normal"), *((n, kind) for n in (10, 40) for kind in ("normal", "uniform"))],
)
def test_interval_when_data_are_simulated_then_covers_at_its_rate(count: int, kind: str) -> None:
    """Within three standard errors of 0.95 over 1500 simulations, and a little allowed for few inputs."""
    generator = np.random.default_rng(0)
    draw = generator.normal(1, 2, (count, 1500)) if kind == "normal" else generator.uniform(0, 2, (count, 1500))
    covered = np.mean([mean.low <= 1 <= mean.high for mean in means(draw)])
    assert 0.93 <= covered <= 0.97


def test_interval_when_the_same_seed_then_is_the_same_and_holds_the_mean() -> None:
    values = np.random.default_rng(1).exponential(size=(25, 3))
    first, second = means(values, 4), means(values, 4)
    assert first == second
    assert all(mean.low <= mean.mean <= mean.high and mean.count == 25 for mean in first)


def test_mean_when_values_are_missing_then_leaves_them_out() -> None:
    values = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan], [3.0, 5.0]])
    first, second = means(values)
    assert (first.mean, first.count) == (2.0, 3)
    assert (second.mean, second.count, second.high) == (5.0, 1, np.inf)
    assert means(np.full((3, 1), np.nan))[0].count == 0


def test_sign_flips_when_few_then_equal_all_signs_tried_by_hand() -> None:
    values = np.array([0.3, -0.1, 0.5, 0.2, 0.4, -0.2, 0.1])
    sums = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=7)]
    expected = np.mean([total >= abs(values.sum()) - 1e-9 for total in sums])
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
    generator = np.random.default_rng(5)
    table = {f"m{n}": generator.normal(size=40) for n in range(25)} | {"better": generator.normal(5, 1, size=40)}
    tests = paired_tests(table, list(combinations(table, 2)), 0)
    assert all(test.differ for test in tests if "better" in (test.first, test.second))
    assert sum(test.differ for test in tests if "better" not in (test.first, test.second)) <= 1


def test_interval_when_data_are_skewed_then_is_not_far_from_its_rate() -> None:
    """Exponential numbers, of which 40 are drawn: a percentile interval covers a little less than it says."""
    draw = np.random.default_rng(2).exponential(1, (40, 1500))
    covered = np.mean([mean.low <= 1 <= mean.high for mean in means(draw)])
    assert 0.915 <= covered <= 0.97


def test_holm_when_done_step_by_step_then_is_the_same() -> None:
    """Sort; the smallest must be below α/n, the next below α/(n−1); stop at the first that is not."""
    for p_values in np.random.default_rng(0).beta(0.3, 3, size=(40, 9)):
        for alpha in (0.01, 0.05, 0.2):
            rejected = set()
            for place, test in enumerate(sorted(range(9), key=lambda i: p_values[i])):
                if p_values[test] >= alpha / (9 - place):
                    break
                rejected.add(test)
            assert {i for i in range(9) if holm(p_values)[i] < alpha} == rejected


def test_pair_when_its_methods_share_no_input_then_nothing_is_claimed() -> None:
    table = {"a": np.array([1.0, np.nan]), "b": np.array([np.nan, 1.0])}
    (test,) = paired_tests(table, [("a", "b")], 0)
    assert (test.difference.count, test.p, test.differ) == (0, 1, False)
    assert paired_tests(table, [], 0) == []


def draws(count: int, runs: int) -> dict[str, tuple[np.ndarray, float]]:
    """Shapes of values between 0 and 1, [input run], and their mean."""
    generator = np.random.default_rng(count)
    shape = (count, runs)
    return {
        "uniform": (generator.uniform(0, 1, shape), 0.5),
        "skewed": (generator.beta(2, 6, shape), 0.25),
        "near the top": (generator.beta(8, 2, shape), 0.8),
        "two values": (generator.integers(0, 2, shape).astype(float), 0.5),
        "rarely one": ((generator.random(shape) < 0.1).astype(float), 0.1),
        "almost always one": ((generator.random(shape) < 0.95).astype(float), 0.95),
        "constant": (np.full(shape, 0.3), 0.3),
    }


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("metric", list_metrics().values(), ids=lambda metric: metric.name)
def test_interval_when_a_metric_has_few_inputs_then_is_possible_and_covers_at_its_rate(
    metric: Metric, count: int
) -> None:
    """A normal sample would be covered in 95 % of cases; these shapes, 400 of each, are in at least 91.5 %."""
    for low, high in {metric.limits_for(answer) for answer in (PROBABILITY, DIFFERENCE)}:
        for name, (unit, centre) in draws(count, 400).items():
            sample, mean = low + (high - low) * unit, low + (high - low) * centre
            intervals = means(sample, 0, (low, high))
            slack = 1e-12 * (high - low)
            assert all(low - slack <= i.low <= i.mean <= i.high <= high + slack for i in intervals), name
            assert all(i.high - i.low > 0.1 * (high - low) / count for i in intervals if "constant" in name)
            covered = np.mean([i.low - slack <= mean <= i.high + slack for i in intervals])
            assert covered >= 0.915, name


def test_interval_when_values_are_constant_then_has_the_exact_bound() -> None:
    """With ten equal inputs, more than 25.9 % of others would have been missed in less than one case of twenty."""
    (at_the_end,) = means(np.ones((10, 1)), 0, (-1.0, 1.0))
    missed = 1 - 0.05 ** (1 / 10)
    assert 0.95**10 > 0.05 > (1 - missed - 1e-6) ** 10
    assert (at_the_end.low, at_the_end.high) == pytest.approx((1 - 2 * missed, 1))
    (inside,) = means(np.full((3, 1), 0.25), 0, (0.0, 1.0))
    missed = 1 - 0.05 ** (1 / 3)
    assert (inside.low, inside.high) == pytest.approx((0.25 - missed * 0.25, 0.25 + missed * 0.75))


def test_interval_when_there_is_one_input_then_is_the_whole_range() -> None:
    (single,) = means(np.array([[0.7]]), 0, (0.0, 1.0))
    assert (single.low, single.high) == (0, 1)


def test_difference_when_values_have_limits_then_may_be_as_wide_as_both() -> None:
    table = {"a": np.array([1.0, 1.0, 0.0]), "b": np.array([0.0, 0.2, 1.0])}
    (test,) = paired_tests(table, [("a", "b")], 0, (0.0, 1.0))
    assert (test.difference.low, test.difference.high) == (-1, 1)


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("comprehensiveness_delete", PROBABILITY, (-5 / 6, 5 / 6)),
        ("sufficiency_pad", DIFFERENCE, (-5 / 3, 5 / 3)),
        ("aopc_mask", PROBABILITY, (-1, 1)),
        ("aopc_mask", DIFFERENCE, (-2, 2)),
        ("deletion_area_delete", PROBABILITY, (0, 1)),
        ("insertion_area_delete", DIFFERENCE, (-1, 1)),
        ("naopc_delete", DIFFERENCE, (0, 1)),
        ("randomisation", PROBABILITY, (-1, 1)),
    ],
)
def test_limits_when_the_answer_is_a_difference_then_are_wider_where_they_depend_on_it(
    name: str, answer: Limits, expected: Limits
) -> None:
    assert list_metrics()[name].limits_for(answer) == pytest.approx(expected)
