"""blank_out_agreement: correlation with leave-one-out."""

import numpy as np
import pytest

from tests.faithfulness.cases import additive_case, metric_value, ranking_of
from thalweg.faithfulness.effects import single_effects
from thalweg.faithfulness.registry import list_metrics


def test_agreement_when_ranked_by_leave_one_out_or_its_inverse_then_is_one_or_minus_one() -> None:
    case = additive_case()
    effects = single_effects(case, "delete")
    assert metric_value("blank_out_agreement", ranking_of(case, effects)) == pytest.approx(1)
    assert metric_value("blank_out_agreement", ranking_of(case, -effects)) == pytest.approx(-1)


def test_agreement_when_scores_are_constant_then_is_not_defined() -> None:
    case = additive_case()
    assert list_metrics()["blank_out_agreement_delete"](ranking_of(case, np.ones(len(case.removable)))) is None
