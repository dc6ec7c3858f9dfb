"""aopc: the mean fall over all removals."""

import pytest

from tests.faithfulness.cases import first_and_last, metric_value


def test_aopc_when_the_key_word_goes_first_then_every_step_counts() -> None:
    """The answer is 0.9 with the key word and 0.3 without it; there are four words."""
    first, last = first_and_last()
    assert metric_value("aopc", first) == pytest.approx(0.6)
    assert metric_value("aopc", last) == pytest.approx(0.6 / 4)
