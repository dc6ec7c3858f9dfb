"""randomisation: correlation with the scores on shuffled weights."""

from dataclasses import replace

import numpy as np
import pytest

from tests.faithfulness.cases import metric_value, ranking_of, tiny_case
from thalweg.faithfulness.case import Ranking
from thalweg.faithfulness.registry import list_metrics


def test_randomisation_when_scores_stay_or_turn_round_on_shuffled_weights_then_is_one_or_minus_one() -> None:
    case = replace(tiny_case("bert"), shuffled=lambda: tiny_case("bert"))
    scores = np.arange(float(len(case.removable)))
    same = ranking_of(case, scores)
    assert metric_value("randomisation", same) == pytest.approx(1)
    turned = Ranking(case, same.scores, lambda other: ranking_of(other, -scores))
    assert metric_value("randomisation", turned) == pytest.approx(-1)


def test_randomisation_when_there_are_no_shuffled_weights_then_is_not_defined() -> None:
    case = tiny_case("bert")
    assert list_metrics()["randomisation"](ranking_of(case, np.arange(float(len(case.removable))))) is None
