"""comprehensiveness: ERASER's five bins, divided by six."""

import numpy as np
import pytest

from tests.faithfulness.cases import additive_case, linear_case, metric_value, ranking_of


def test_comprehensiveness_when_computed_by_hand_then_five_bins_are_divided_by_six() -> None:
    """Ten words: the bins remove 1, 1, 1, 2 and 5 of them, at 0.05 each."""
    ranking = ranking_of(linear_case(), np.arange(10.0))
    assert metric_value("comprehensiveness", ranking) == pytest.approx(0.05 * (1 + 1 + 1 + 2 + 5) / 6)


def test_comprehensiveness_when_the_answer_rises_again_then_no_running_minimum_is_taken() -> None:
    """Public code records the lowest answer so far: it would say 0.4 from the second bin on."""
    falls_and_rises = {12: 0.9, 11: 0.5, 10: 0.8, 7: 0.8}
    case = additive_case(answer=lambda ids: falls_and_rises[len(ids)], text="the old dog sees a new cat and runs .")
    expected = (3 * 0.4 + 0.1 + 0.1) / 6
    assert metric_value("comprehensiveness", ranking_of(case, np.arange(10.0))) == pytest.approx(expected)
