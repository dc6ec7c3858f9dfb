"""blank_out_size_agreement: correlation with the size of the effects."""

import numpy as np
import pytest

from tests.faithfulness.cases import additive_case, metric_value, ranking_of
from thalweg.faithfulness.effects import single_effects


def test_agreement_when_a_token_is_evidence_against_the_answer_then_its_size_counts() -> None:
    case = additive_case()
    effects = single_effects(case, "delete")
    assert effects.min() < 0 < effects.max()
    assert metric_value("blank_out_size_agreement", ranking_of(case, np.abs(effects))) == pytest.approx(1)
    assert metric_value("blank_out_size_agreement", ranking_of(case, effects)) < 1
