"""insertion_area: trapezoids under the rising answer."""

import pytest

from tests.faithfulness.cases import first_and_last, metric_value


def test_insertion_area_when_the_key_word_comes_first_then_is_large() -> None:
    first, last = first_and_last()
    assert metric_value("insertion_area", first) == pytest.approx((0.3 / 2 + 0.9 * 3 + 0.9 / 2) / 4)
    assert metric_value("insertion_area", last) == pytest.approx((0.3 / 2 + 0.3 * 3 + 0.9 / 2) / 4)
