"""cue_rank: one over the rank of the deciding word."""

import numpy as np

from tests.faithfulness.cases import metric_value, ranking_of, subject_of
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.registry import list_metrics

TEXT = "the keys to the cabinet"


def test_cue_rank_when_the_word_is_second_then_is_a_half() -> None:
    case = make_case(subject_of("bert"), BenchExample(TEXT, cue=((4, 8),)))
    assert metric_value("cue_rank", ranking_of(case, np.array([0.0, 1.0, 0.0, 0.0, 2.0]))) == 0.5


def test_cue_rank_when_there_is_no_cue_then_is_not_defined() -> None:
    case = make_case(subject_of("bert"), BenchExample(TEXT))
    assert list_metrics()["cue_rank"](ranking_of(case, np.arange(5.0))) is None
