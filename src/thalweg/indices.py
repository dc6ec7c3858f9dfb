"""Checks of indices that callers pass: layers, heads and rows."""

from operator import index
from typing import SupportsIndex

from thalweg.errors import InputError


def check_index(name: str, value: SupportsIndex, count: int, *, negative: bool = False) -> int:
    """Return an index from 0 to count − 1; with `negative`, negative values count from the end.

    >>> check_index("layer", -1, 4, negative=True)
    3
    """
    least = -count if negative else 0
    try:
        place = index(value)
    except TypeError:
        place = count
    if isinstance(value, bool) or not least <= place < count:
        raise InputError(f"{name} must be from {least} to {count - 1}, got {value!r}")
    return place % count
