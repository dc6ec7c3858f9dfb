"""naopc: AOPC between the worst and the best order."""

import numpy as np
import pytest

from tests.faithfulness.cases import SHORT_TEXT, additive_case, first_and_last, metric_value, ranking_of
from thalweg.faithfulness.bounds import BEAM_WIDTH, MAX_EXACT_TOKENS
from thalweg.faithfulness.registry import list_metrics


def test_naopc_when_the_order_is_best_or_worst_then_is_one_or_zero() -> None:
    first, last = first_and_last()
    assert metric_value("naopc", first) == pytest.approx(1)
    assert metric_value("naopc", last) == pytest.approx(0)


def test_naopc_when_all_orders_are_equal_then_is_not_defined() -> None:
    case = additive_case(answer=lambda ids: 0.5, text=SHORT_TEXT)
    assert list_metrics()["naopc_delete"](ranking_of(case, np.arange(4.0))) is None


def test_naopc_when_a_ranking_is_beyond_the_bounds_of_the_search_then_is_one_or_zero() -> None:
    for ranking, expected in zip(first_and_last(), (1.0, 0.0), strict=True):
        ranking.case.cache[("aopc bounds", "delete", MAX_EXACT_TOKENS, BEAM_WIDTH)] = (0.3, 0.4)  # really 0.15 and 0.6
        assert metric_value("naopc", ranking) == expected
