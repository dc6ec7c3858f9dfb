"""leave_one_out: the effect of each removal, by any operator."""

import pytest

from tests.faithfulness.cases import key_word_case, scores_of, tiny_case
from thalweg.faithfulness.effects import single_effects


def test_leave_one_out_when_one_word_decides_then_only_it_has_a_score() -> None:
    assert scores_of("leave_one_out", key_word_case()) == pytest.approx([0, 0, 0.6, 0, 0, 0])


def test_leave_one_out_when_an_operator_is_set_then_uses_it() -> None:
    case = tiny_case("bert")
    scores = scores_of("leave_one_out:operator=mask", case)
    assert scores[list(case.removable)] == pytest.approx(single_effects(case, "mask"))
    assert (scores != scores_of("leave_one_out", case)).any()
