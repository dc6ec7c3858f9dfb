"""Checks of indices."""

import numpy as np
import pytest

import thalweg as tw
from thalweg.indices import check_index


def test_index_when_in_range_then_is_returned_from_the_start() -> None:
    assert check_index("head", 3, 4) == 3
    assert check_index("layer", -4, 4, negative=True) == 0
    assert check_index("layer", np.int64(2), 4) == 2


@pytest.mark.parametrize("value", [4, -1, True, 0.0, "1", None])
@pytest.mark.usefixtures("as_a_user")
def test_index_when_out_of_range_or_not_an_integer_then_the_error_has_the_range_and_the_value(value: object) -> None:
    with pytest.raises(tw.InputError, match="head must be from 0 to 3") as error:
        check_index("head", value, 4)  # pyright: ignore[reportArgumentType]
    assert repr(value) in str(error.value)
