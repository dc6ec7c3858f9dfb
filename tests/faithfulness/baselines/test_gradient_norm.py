"""gradient_norm: the length of the gradient, without a sign."""

import pytest

from tests.faithfulness.cases import scores_of, tiny_case
from thalweg.faithfulness.embeddings import gradient


def test_gradient_norm_when_taken_then_is_the_length_of_the_gradient() -> None:
    case = tiny_case("bert")
    scores = scores_of("gradient_norm", case)
    assert scores == pytest.approx(gradient(case)[1].double().square().sum(-1).sqrt().numpy())
    assert (scores >= 0).all()
