"""plausibility: average precision against human rationales."""

import numpy as np
import pytest

from tests.faithfulness.cases import metric_value, ranking_of, subject_of
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.registry import list_metrics

TEXT = "the old dog sees"


def test_plausibility_when_people_marked_words_then_is_average_precision() -> None:
    """ "old" ranks first of one, "sees" fourth of two marked words."""
    case = make_case(subject_of("bert"), BenchExample(TEXT, rationale=((4, 7), (12, 16))))
    value = metric_value("plausibility", ranking_of(case, np.array([3.0, 4.0, 2.0, 1.0])))
    assert value == pytest.approx((1 + 2 / 4) / 2)


def test_plausibility_when_there_is_no_rationale_then_is_not_defined() -> None:
    case = make_case(subject_of("bert"), BenchExample(TEXT))
    assert list_metrics()["plausibility"](ranking_of(case, np.ones(4))) is None
