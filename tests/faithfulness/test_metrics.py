"""Metrics on models whose answer is known, and the faults of public code that must not come back."""

from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.faithfulness.additive import additive_case, ranked
from tests.faithfulness.test_scoring import subject_of
from thalweg.faithfulness.bounds import aopc_bounds
from thalweg.faithfulness.case import Ranked, case_of
from thalweg.faithfulness.curves import after_removing, bin_counts, spearman, with_only
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.operators import OPERATORS, Operator
from thalweg.faithfulness.registry import find_metrics, list_metrics

SHORT = "the old dog runs"
TAKING = sorted({one.base for one in list_metrics().values() if one.operator})
operators = pytest.mark.parametrize("operator", OPERATORS)


def value(base: str, one: Ranked, operator: Operator = "delete") -> float:
    found = find_metrics([base], operator)[0](one)
    assert found is not None
    return found


def test_registry_when_listed_then_names_say_operator_and_labels_the_direction() -> None:
    known = list_metrics()
    assert set(TAKING) == {
        "comprehensiveness", "sufficiency", "aopc", "naopc", "log_odds", "deletion_area", "insertion_area",
        "blank_out_agreement", "blank_out_size_agreement",
    }  # fmt: skip
    assert len(known) == 3 * len(TAKING) + 6
    assert known["sufficiency_mask"].label == "sufficiency_mask ↓"
    assert known["comprehensiveness_pad"].label == "comprehensiveness_pad ↑"
    lower = {one.base for one in known.values() if one.direction == "lower"}
    assert lower == {"sufficiency", "log_odds", "deletion_area", "randomisation"}
    assert all(one.summary.endswith((".", ":")) or len(one.summary) > 20 for one in known.values())


@operators
@pytest.mark.parametrize("seed", range(3))
def test_additive_model_when_ranked_by_leave_one_out_then_no_order_is_better_at_any_step(
    operator: Operator, seed: int
) -> None:
    case = additive_case(seed, text=SHORT)
    best = ranked(case, single_effects(case, operator))
    steps = list(range(len(case.movable) + 1))
    low = after_removing(best, steps, operator)
    for order in permutations(range(len(case.movable))):
        other = ranked(case, -np.array(order, dtype=np.float64))
        assert (low <= after_removing(other, steps, operator) + 1e-12).all()
        assert value("comprehensiveness", best, operator) >= value("comprehensiveness", other, operator) - 1e-12


@operators
def test_additive_model_when_ranked_perfectly_then_it_and_its_reverse_bracket_the_others(operator: Operator) -> None:
    case = additive_case(1)
    effects = single_effects(case, operator)
    best, worst = ranked(case, effects), ranked(case, -effects)
    chance = np.random.default_rng(0)
    for base in ("comprehensiveness", "sufficiency", "aopc", "naopc", "log_odds", "deletion_area", "insertion_area"):
        sign = 1 if find_metrics([base], operator)[0].direction == "higher" else -1
        top, bottom = sign * value(base, best, operator), sign * value(base, worst, operator)
        assert top > bottom
        for _ in range(8):
            other = sign * value(base, ranked(case, chance.permutation(effects)), operator)
            assert bottom - 1e-9 <= other <= top + 1e-9, base


@operators
def test_sufficiency_when_everything_is_kept_then_nothing_is_lost(operator: Operator) -> None:
    case = additive_case()
    one = ranked(case, np.arange(len(case.movable), dtype=np.float64))
    kept, whole = with_only(one, [len(case.movable)], operator), case.scorer([case.whole])
    assert kept == pytest.approx(whole, abs=0)
    assert after_removing(one, [0], operator) == pytest.approx(whole, abs=0)


@operators
def test_ranking_when_reversed_then_removing_first_is_keeping_last(operator: Operator) -> None:
    case = additive_case(2)
    scores = np.random.default_rng(2).permutation(len(case.movable)).astype(np.float64)
    count = len(case.movable)
    steps = list(range(count + 1))
    removed = after_removing(ranked(case, scores), steps, operator)
    assert (removed == with_only(ranked(case, -scores), [count - step for step in steps], operator)).all()


def test_comprehensiveness_when_computed_by_hand_then_five_bins_are_divided_by_six() -> None:
    case = additive_case(answer=lambda ids: 0.1 + 0.05 * len(ids), text="the old dog sees a new cat and runs .")
    assert len(case.movable) == 10
    assert bin_counts(10) == [1, 1, 1, 2, 5]
    one = ranked(case, np.arange(10.0))
    assert value("comprehensiveness", one) == pytest.approx(0.05 * (1 + 1 + 1 + 2 + 5) / 6)
    assert value("sufficiency", one) == pytest.approx(0.05 * (9 + 9 + 9 + 8 + 5) / 6)


def test_comprehensiveness_when_the_answer_rises_again_then_no_running_minimum_is_taken() -> None:
    """Public code records the lowest answer so far: it would say 0.4 from the second bin on."""
    falls_and_rises = {12: 0.9, 11: 0.5, 10: 0.8, 7: 0.8}
    case = additive_case(answer=lambda ids: falls_and_rises[len(ids)], text="the old dog sees a new cat and runs .")
    assert value("comprehensiveness", ranked(case, np.arange(10.0))) == pytest.approx((3 * 0.4 + 0.1 + 0.1) / 6)


def test_aopc_when_the_answer_falls_then_is_positive_and_higher_is_better() -> None:
    key = additive_case(text=SHORT).whole.ids[2]  # "old", the second word behind [CLS]
    case = additive_case(answer=lambda ids: 0.9 if key in ids else 0.3, text=SHORT)
    first = ranked(case, np.array([0.0, 1.0, 0.0, 0.0]))
    last = ranked(case, np.array([0.0, -1.0, 0.0, 0.0]))
    assert value("aopc", first) == pytest.approx(0.6)
    assert value("aopc", last) == pytest.approx(0.6 / 4)
    assert value("deletion_area", first) == pytest.approx((0.9 / 2 + 0.3 * 3 + 0.3 / 2) / 4)
    assert value("insertion_area", first) == pytest.approx((0.3 / 2 + 0.9 * 3 + 0.9 / 2) / 4)
    assert value("log_odds", first) == pytest.approx(np.log(0.3 / 0.9))
    assert value("naopc", first) == pytest.approx(1)
    assert value("naopc", last) == pytest.approx(0)


@operators
def test_bounds_when_short_then_equal_the_best_and_worst_of_all_orders(operator: Operator) -> None:
    case = case_of(subject_of("bert"), BenchExample(SHORT))
    found = [
        value("aopc", ranked(case, -np.array(order, dtype=np.float64)), operator)
        for order in permutations(range(len(case.movable)))
    ]
    low, high = aopc_bounds(case, operator)
    assert (low, high) == pytest.approx((min(found), max(found)), abs=1e-9)
    inner = aopc_bounds(case, operator, exact=0, beam=2)
    assert low - 1e-9 <= inner[0] <= inner[1] <= high + 1e-9
    wide = aopc_bounds(case, operator, exact=0, beam=100)
    assert wide == pytest.approx((low, high), abs=1e-9)


def test_naopc_when_all_orders_are_equal_then_is_not_defined() -> None:
    case = additive_case(answer=lambda ids: 0.5, text=SHORT)
    assert list_metrics()["naopc_delete"](ranked(case, np.arange(4.0))) is None


def test_spearman_when_scores_are_equal_then_is_scipys_and_not_the_shortcut_on_dense_ranks() -> None:
    one, other = np.array([1.0, 1.0, 2.0, 3.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    dense = np.unique(one, return_inverse=True)[1] - np.unique(other, return_inverse=True)[1]
    shortcut = 1 - 6 * (dense**2).sum() / (5 * 24)
    found, expected = spearman(one, other), cast(Any, spearmanr(one, other)).statistic
    assert found == pytest.approx(expected)
    assert found is not None
    assert abs(found - shortcut) > 0.2
    assert spearman(one, np.ones(5)) is None


def test_blank_out_agreement_when_ranked_by_leave_one_out_then_is_one() -> None:
    case = additive_case()
    assert value("blank_out_agreement", ranked(case, single_effects(case, "delete"))) == pytest.approx(1)
    assert list_metrics()["blank_out_agreement_delete"].role == "agreement"


def test_plausibility_when_people_marked_words_then_is_average_precision() -> None:
    text = "the old dog sees"
    case = case_of(subject_of("bert"), BenchExample(text, rationale=((4, 7), (12, 16))))
    assert value("plausibility", ranked(case, np.array([3.0, 4.0, 2.0, 1.0]))) == pytest.approx((1 + 2 / 4) / 2)
    assert list_metrics()["plausibility"](ranked(case_of(subject_of("bert"), BenchExample(text)), np.ones(4))) is None


def test_cue_rank_when_the_word_is_second_then_is_a_half() -> None:
    case = case_of(subject_of("bert"), BenchExample("the keys to the cabinet", cue=((4, 8),)))
    assert value("cue_rank", ranked(case, np.array([0.0, 1.0, 0.0, 0.0, 2.0]))) == 0.5


def test_metrics_when_two_answers_are_compared_then_log_odds_are_not_defined() -> None:
    case = case_of(subject_of("gpt2"), BenchExample("the key", good="the", bad="key"))
    assert case.answer.foil is not None
    assert list_metrics()["log_odds_delete"](ranked(case, np.arange(float(len(case.movable))))) is None


def test_blank_out_size_agreement_when_a_token_speaks_against_the_answer_then_its_size_counts() -> None:
    case = additive_case()
    effects = single_effects(case, "delete")
    assert effects.min() < 0 < effects.max()
    assert value("blank_out_size_agreement", ranked(case, np.abs(effects))) == pytest.approx(1)
    assert value("blank_out_size_agreement", ranked(case, effects)) < 1
    assert value("blank_out_agreement", ranked(case, effects)) == pytest.approx(1)
