"""Values that JSON can represent."""

import json
from types import MappingProxyType

import numpy as np

from thalweg.jsonable import jsonable


def test_value_when_of_numpy_or_nested_then_becomes_plain() -> None:
    value = MappingProxyType({1: np.float32(0.5), "rows": (np.array([[1, 2]]), [np.bool_(True), None, "x"])})
    assert jsonable(value) == {"1": 0.5, "rows": [[[1, 2]], [True, None, "x"]]}


def test_numbers_when_not_finite_then_become_null() -> None:
    numbers = jsonable([float("nan"), np.array([np.inf, 1.0]), -np.inf])
    assert json.dumps(numbers, allow_nan=False) == "[null, [null, 1.0], null]"
