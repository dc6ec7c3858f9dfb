"""plausibility_f1: the share of marked tokens among as many top tokens."""

import numpy as np

from tests.faithfulness.cases import metric_value, ranking_of, subject_of
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.registry import list_metrics

TEXT = "the old dog sees"


def test_f1_when_one_of_two_marked_words_is_in_the_top_two_then_is_a_half() -> None:
    case = make_case(subject_of("bert"), BenchExample(TEXT, rationale=((4, 7), (12, 16))))
    assert metric_value("plausibility_f1", ranking_of(case, np.array([3.0, 4.0, 2.0, 1.0]))) == 0.5
    assert metric_value("plausibility_f1", ranking_of(case, np.array([0.0, 4.0, 2.0, 5.0]))) == 1


def test_f1_when_there_is_no_rationale_then_is_not_defined() -> None:
    case = make_case(subject_of("bert"), BenchExample(TEXT))
    assert list_metrics()["plausibility_f1"](ranking_of(case, np.ones(4))) is None
