"""Verdicts: leaders, ties, gates, and no claim without evidence."""

from itertools import combinations

import numpy as np
import pytest

from thalweg.faithfulness.registry import list_metrics
from thalweg.faithfulness.statistics import Mean, PairedTest, means, paired_tests
from thalweg.faithfulness.verdicts import Verdict, competes, judge

AOPC = list_metrics()["aopc_delete"]


def verdict_of(table: dict[str, np.ndarray]) -> Verdict:
    by_method = dict(zip(table, means(np.stack(list(table.values()), 1)), strict=True))
    return judge(AOPC, by_method, paired_tests(table, list(combinations(table, 2)), 0))


def test_verdict_when_there_is_no_difference_then_claims_one_at_its_rate() -> None:
    """With three equal methods and all pairs tested, a difference is claimed in about one of twenty runs."""
    generator = np.random.default_rng(7)
    names = ("alti", "flow", "random")
    verdicts = [verdict_of(dict(zip(names, generator.normal(size=(3, 20)), strict=True))) for _ in range(150)]
    none = sum(verdict.sentence == "no difference found between any two of the 3 methods" for verdict in verdicts)
    assert none >= 0.90 * len(verdicts)


def test_verdict_when_two_lead_together_then_names_both() -> None:
    noise = np.random.default_rng(8).normal(size=(40, 3))
    verdict = verdict_of({"alti": noise[:, 0] + 4, "flow": noise[:, 1] + 4, "random": noise[:, 2]})
    assert {verdict.leader, *verdict.tied} == {"alti", "flow"}
    assert f"{verdict.leader} has the highest mean; no difference found from {verdict.tied[0]}" == verdict.sentence


def test_verdict_when_one_leads_then_names_no_other() -> None:
    noise = np.random.default_rng(9).normal(size=(40, 3))
    verdict = verdict_of({"alti": noise[:, 0] + 4, "flow": noise[:, 1], "random": noise[:, 2]})
    assert (verdict.leader, verdict.tied, verdict.differ) == ("alti", (), True)
    assert verdict.sentence == "alti is higher than each of the 2 others"


def test_verdict_when_lower_is_better_then_the_lowest_leads() -> None:
    by_method = {"alti": Mean(-0.1, -0.2, 0.0, 9), "random": Mean(0.3, 0.2, 0.4, 9)}
    test = PairedTest("alti", "random", Mean(-0.4, -0.5, -0.3, 9), 0.001, 0.001)
    verdict = judge(list_metrics()["sufficiency_delete"], by_method, [test])
    assert (verdict.leader, verdict.sentence) == ("alti", "alti is lower than the other")


def test_gate_when_scores_survive_shuffled_weights_then_the_method_fails() -> None:
    by_method = {"stubborn": Mean(0.9, 0.8, 1.0, 9), "open": Mean(0.5, 0.3, 0.7, 9), "good": Mean(0.1, 0.0, 0.2, 9)}
    gate = list_metrics()["randomisation"]
    verdict = judge(gate, by_method, [])
    assert verdict.failed == ("stubborn",)
    assert "stubborn; undecided: open" in verdict.sentence
    assert judge(gate, {"good": by_method["good"]}, []) == Verdict("all pass")


def test_verdict_when_few_inputs_could_show_nothing_then_adds_that() -> None:
    noise = np.random.default_rng(3).normal(size=(4, 2))
    assert "too few inputs" in verdict_of({"alti": noise[:, 0] + 100, "random": noise[:, 1]}).sentence
    many = np.random.default_rng(3).normal(size=(30, 2))
    assert verdict_of({"alti": many[:, 0], "random": many[:, 1]}).sentence.endswith("of the 2 methods")


def test_verdict_when_the_best_mean_rests_on_easier_inputs_then_does_not_claim_to_be_better() -> None:
    """Where both have values flow is higher every time; alti has values for the easy inputs only."""
    easy = np.arange(30) < 15
    level = np.where(easy, 5.0, 0.0) + np.random.default_rng(0).normal(0, 0.1, 30)
    verdict = verdict_of({"alti": np.where(easy, level, np.nan), "flow": level + 1})
    assert verdict.sentence == "alti has the highest mean, but flow is better on the inputs that both have"


@pytest.mark.parametrize(("shift", "differ", "like_random"), [(0.0, False, ()), (9.0, True, ("flow",))])
def test_verdict_when_no_two_differ_then_no_method_is_like_random(
    shift: float, differ: bool, like_random: tuple[str, ...]
) -> None:
    """That would only name all methods again."""
    many = np.random.default_rng(3).normal(size=(30, 2))
    verdict = verdict_of({"alti": many[:, 0] + shift, "random": many[:, 1], "flow": many[::-1, 1].copy()})
    assert (verdict.differ, verdict.like_random) == (differ, like_random)


def test_competitors_when_inverse_or_reference_then_do_not_compete() -> None:
    agreement = list_metrics()["blank_out_agreement_mask"]
    assert competes(agreement, "alti")
    assert not competes(agreement, "inverse_alti")
    assert not competes(agreement, "leave_one_out:operator=mask")
    assert competes(AOPC, "leave_one_out")
    only_shown = judge(agreement, {"leave_one_out": Mean(1.0, 1.0, 1.0, 9)}, [])
    assert (only_shown.leader, "no competitors" in only_shown.sentence) == (None, True)


def test_verdict_when_no_value_is_known_then_says_that_it_is_not_defined() -> None:
    assert judge(AOPC, {"alti": Mean(np.nan, np.nan, np.nan, 0)}, []) == Verdict("not defined for any of these inputs")
    alone = judge(list_metrics()["gradient_agreement"], {"alti": Mean(0.5, 0.4, 0.6, 9)}, [])
    assert alone.sentence == "agreement, not truth: alti has no competitor"
