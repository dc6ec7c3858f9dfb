"""Bounds of AOPC over all removal orders."""

from itertools import permutations

import numpy as np
import pytest

import thalweg as tw
from tests.faithfulness.cases import SHORT_TEXT, key_word_case, metric_value, ranking_of, subject_of
from thalweg.decompose.edits import OPERATORS, Operator
from thalweg.faithfulness import bounds
from thalweg.faithfulness.bounds import aopc_bounds
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample


@pytest.mark.parametrize("operator", OPERATORS)
def test_bounds_when_short_then_equal_the_best_and_worst_of_all_orders(operator: Operator) -> None:
    case = make_case(subject_of("bert"), BenchExample(SHORT_TEXT))
    values = [
        metric_value("aopc", ranking_of(case, -np.array(order, dtype=np.float64)), operator)
        for order in permutations(range(len(case.removable)))
    ]
    low, high = aopc_bounds(case, operator)
    assert (low, high) == pytest.approx((min(values), max(values)), abs=1e-9)
    inner = aopc_bounds(case, operator, max_exact_tokens=0, beam_width=2)
    assert low - 1e-9 <= inner[0] <= inner[1] <= high + 1e-9
    wide = aopc_bounds(case, operator, max_exact_tokens=0, beam_width=100)
    assert wide == pytest.approx((low, high), abs=1e-9)


def test_bounds_when_one_word_decides_then_are_its_removal_last_and_first() -> None:
    assert aopc_bounds(key_word_case(), "delete") == pytest.approx((0.6 / 4, 0.6))


def test_bounds_when_known_then_no_input_runs_again() -> None:
    case = key_word_case()
    aopc_bounds(case, "delete")
    requests = case.scorer.requests
    aopc_bounds(case, "delete")
    assert case.scorer.requests == requests


def test_bounds_when_a_text_is_long_then_the_error_has_its_limit_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_TOKENS", 3)
    with pytest.raises(tw.InputError, match=r"up to 3 tokens, got 4 \(about 80 passes\)"):
        aopc_bounds(key_word_case(), "delete")
