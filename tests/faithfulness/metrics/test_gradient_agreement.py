"""gradient_agreement: correlation with gradient norms."""

import pytest

from tests.faithfulness.cases import metric_value, ranking_of, scores_of, tiny_case


def test_agreement_when_ranked_by_gradient_norms_or_their_inverse_then_is_one_or_minus_one() -> None:
    case = tiny_case("bert")
    norms = scores_of("gradient_norm", case)[list(case.removable)]
    assert metric_value("gradient_agreement", ranking_of(case, norms)) == pytest.approx(1)
    assert metric_value("gradient_agreement", ranking_of(case, -norms)) == pytest.approx(-1)
