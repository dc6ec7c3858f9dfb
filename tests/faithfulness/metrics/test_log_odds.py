"""log_odds: a ratio of probabilities, on a logarithmic scale."""

import numpy as np
import pytest

from tests.faithfulness.cases import first_and_last, metric_value, ranking_of, subject_of
from thalweg.faithfulness.case import make_case
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.registry import list_metrics


def test_log_odds_when_the_key_word_is_in_the_top_fifth_then_are_the_log_of_the_ratio() -> None:
    """A fifth of four words is one, rounded up."""
    first, last = first_and_last()
    assert metric_value("log_odds", first) == pytest.approx(np.log(0.3 / 0.9))
    assert metric_value("log_odds", last) == pytest.approx(0)


def test_log_odds_when_two_words_are_compared_then_are_not_defined() -> None:
    case = make_case(subject_of("gpt2"), BenchExample("the key", good="the", bad="key"))
    assert case.answer.foil is not None
    assert list_metrics()["log_odds_delete"](ranking_of(case, np.arange(float(len(case.removable))))) is None
