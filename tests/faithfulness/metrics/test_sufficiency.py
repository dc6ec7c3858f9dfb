"""sufficiency: the fall when only the top tokens are kept."""

import numpy as np
import pytest

from tests.faithfulness.cases import linear_case, metric_value, ranking_of


def test_sufficiency_when_computed_by_hand_then_five_bins_are_divided_by_six() -> None:
    """Ten words: the bins keep 1, 1, 1, 2 and 5 of them."""
    ranking = ranking_of(linear_case(), np.arange(10.0))
    assert metric_value("sufficiency", ranking) == pytest.approx(0.05 * (9 + 9 + 9 + 8 + 5) / 6)
