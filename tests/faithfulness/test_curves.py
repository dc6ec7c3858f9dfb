"""Answers along a ranking, areas and rank correlations."""

from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.faithfulness.cases import SHORT_TEXT, additive_case, metric_value, ranking_of
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness.curves import after_removing, area, bin_counts, spearman, with_only
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.registry import find_metrics

operators = pytest.mark.parametrize("operator", OPERATORS)


@operators
@pytest.mark.parametrize("seed", range(3))
def test_additive_model_when_ranked_by_leave_one_out_then_no_order_is_better_at_any_step(
    operator: Operator, seed: int
) -> None:
    case = additive_case(seed, text=SHORT_TEXT)
    best = ranking_of(case, single_effects(case, operator))
    steps = list(range(len(case.removable) + 1))
    lowest = after_removing(best, steps, operator)
    for order in permutations(range(len(case.removable))):
        other = ranking_of(case, -np.array(order, dtype=np.float64))
        assert (lowest <= after_removing(other, steps, operator) + 1e-12).all()
        assert (
            metric_value("comprehensiveness", best, operator)
            >= metric_value("comprehensiveness", other, operator) - 1e-12
        )


@operators
def test_additive_model_when_ranked_perfectly_then_it_and_its_reverse_bracket_the_others(operator: Operator) -> None:
    case = additive_case(1)
    effects = single_effects(case, operator)
    best, worst = ranking_of(case, effects), ranking_of(case, -effects)
    generator = np.random.default_rng(0)
    for base in ("comprehensiveness", "sufficiency", "aopc", "naopc", "log_odds", "deletion_area", "insertion_area"):
        sign = 1 if find_metrics([base], operator)[0].direction == "higher" else -1
        top, bottom = sign * metric_value(base, best, operator), sign * metric_value(base, worst, operator)
        assert top > bottom
        for _ in range(8):
            other = sign * metric_value(base, ranking_of(case, generator.permutation(effects)), operator)
            assert bottom - 1e-9 <= other <= top + 1e-9, base


@operators
def test_curves_when_everything_is_kept_then_are_the_full_answer(operator: Operator) -> None:
    case = additive_case()
    ranking = ranking_of(case, np.arange(len(case.removable), dtype=np.float64))
    full = case.scorer([case.original])
    assert with_only(ranking, [len(case.removable)], operator) == pytest.approx(full, abs=0)
    assert after_removing(ranking, [0], operator) == pytest.approx(full, abs=0)


@operators
def test_ranking_when_reversed_then_removing_first_is_keeping_last(operator: Operator) -> None:
    case = additive_case(2)
    scores = np.random.default_rng(2).permutation(len(case.removable)).astype(np.float64)
    count = len(case.removable)
    steps = list(range(count + 1))
    removed = after_removing(ranking_of(case, scores), steps, operator)
    assert (removed == with_only(ranking_of(case, -scores), [count - step for step in steps], operator)).all()


def test_bins_when_a_share_is_no_integer_then_are_rounded_up() -> None:
    assert bin_counts(10) == [1, 1, 1, 2, 5]
    assert bin_counts(100) == [1, 5, 10, 20, 50]


def test_area_when_a_line_falls_from_one_to_zero_then_is_a_half() -> None:
    assert area(np.array([1.0, 0.5, 0.0])) == 0.5
    assert area(np.array([1.0, 0.0, 0.0])) == 0.25


def test_spearman_when_scores_tie_then_is_scipys_and_not_the_shortcut_on_dense_ranks() -> None:
    first, second = np.array([1.0, 1.0, 2.0, 3.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    dense = np.unique(first, return_inverse=True)[1] - np.unique(second, return_inverse=True)[1]
    shortcut = 1 - 6 * (dense**2).sum() / (5 * 24)
    value, expected = spearman(first, second), cast(Any, spearmanr(first, second)).statistic
    assert value == pytest.approx(expected)
    assert value is not None
    assert abs(value - shortcut) > 0.2
    assert spearman(first, np.ones(5)) is None
