"""Conversion of values to what JSON can represent."""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any

import numpy as np

Number = Annotated[float, "null stands for NaN"]  # a field that `jsonable` writes as null if it is NaN


def jsonable(value: Any) -> Any:
    """Convert arrays to lists, mappings to dicts and numpy scalars to numbers; NaN and infinities become None.

    >>> jsonable({"rate": float("nan"), "shape": (2, 3), "scores": np.ones(2)})
    {'rate': None, 'shape': [2, 3], 'scores': [1.0, 1.0]}
    """
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
