"""gradient_x_input: a signed product."""

import pytest

from tests.faithfulness.cases import scores_of, tiny_case
from thalweg.faithfulness.embeddings import gradient


def test_gradient_x_input_when_taken_then_is_a_signed_dot_product() -> None:
    case = tiny_case("bert")
    states, slope = gradient(case)
    scores = scores_of("gradient_x_input", case)
    assert scores == pytest.approx((states * slope).sum(-1).numpy(), abs=1e-6)
    assert scores.min() < 0 < scores.max()
