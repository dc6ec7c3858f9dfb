"""deletion_area: trapezoids under the falling answer."""

import pytest

from tests.faithfulness.cases import first_and_last, metric_value


def test_deletion_area_when_the_key_word_goes_first_then_is_small() -> None:
    first, last = first_and_last()
    assert metric_value("deletion_area", first) == pytest.approx((0.9 / 2 + 0.3 * 3 + 0.3 / 2) / 4)
    assert metric_value("deletion_area", last) == pytest.approx((0.9 / 2 + 0.9 * 3 + 0.3 / 2) / 4)
