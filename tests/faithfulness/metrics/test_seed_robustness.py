"""seed_robustness: correlation with the scores on other seeds that agree."""

from dataclasses import replace

import numpy as np
import pytest

from tests.faithfulness.cases import metric_value, ranking_of, tiny_case
from thalweg.decompose.answers import Answer
from thalweg.faithfulness.case import Case, Ranking
from thalweg.faithfulness.registry import list_metrics


def other_answer() -> Case:
    case = tiny_case("bert")
    return replace(case, answer=Answer(1 - case.answer.output))


def test_robustness_when_seeds_agree_then_is_the_mean_over_them() -> None:
    case = replace(tiny_case("bert"), other_seeds=(lambda: tiny_case("bert"), other_answer, lambda: tiny_case("bert")))
    scores = np.arange(float(len(case.removable)))
    signs = iter([1, -1])
    mixed = Ranking(case, ranking_of(case, scores).scores, lambda other: ranking_of(other, next(signs) * scores))
    assert metric_value("seed_robustness", mixed) == pytest.approx(0)
    assert metric_value("seed_robustness", ranking_of(case, scores)) == pytest.approx(1)


def test_robustness_when_no_seed_gives_the_answer_then_is_not_defined() -> None:
    case = replace(tiny_case("bert"), other_seeds=(other_answer,))
    assert list_metrics()["seed_robustness"](ranking_of(case, np.arange(float(len(case.removable))))) is None
