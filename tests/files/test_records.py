"""Records from plain data: what is read, what is refused with its place, and errors that name the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from thalweg.errors import InputError
from thalweg.files.records import MAX_NESTING, MismatchError, read_as, reading, require
from thalweg.jsonable import Number


class Pair(NamedTuple):
    name: str
    number: int


@dataclass(frozen=True)
class Inner:
    share: float
    spread: Number


@dataclass(frozen=True)
class Outer:
    inner: Inner
    pairs: tuple[Pair, ...]
    spans: tuple[tuple[int, int] | None, ...]
    kind: Literal["a", "b"]
    to: int | Literal["previous"]
    options: Mapping[str, Any]
    note: str | None = None


GOOD: dict[str, Any] = {
    "inner": {"share": 1, "spread": None},
    "pairs": [["x", 2]],
    "spans": [[0, 3], None],
    "kind": "b",
    "to": "previous",
    "options": {"nested": [1, {"deep": True}]},
    "schema": 4,
}


def test_record_when_the_data_fits_then_is_read() -> None:
    record = read_as(Outer, GOOD)
    assert (record.inner.share, type(record.inner.share)) == (1.0, float)
    assert isnan(record.inner.spread)
    assert record.pairs == (Pair("x", 2),)
    assert record.spans == ((0, 3), None)
    assert (record.to, record.note, record.options) == ("previous", None, GOOD["options"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inner": {"spread": 1.0}}, "inner.share is missing"),
        ({"inner": {"share": None, "spread": 1.0}}, "inner.share must be a finite number, got None"),
        ({"inner": {"share": True, "spread": 1.0}}, "inner.share must be a finite number, got True"),
        ({"inner": {"share": float("inf"), "spread": 1.0}}, "inner.share must be a finite number, got inf"),
        ({"inner": []}, "inner must be an object, got []"),
        ({"pairs": [["x"]]}, "pairs[0] must be 2 entries, got ['x']"),
        ({"pairs": [["x", 1.5]]}, "pairs[0].number must be an integer, got 1.5"),
        ({"pairs": "xy"}, "pairs must be a list, got 'xy'"),
        ({"spans": [[0, 1, 2]]}, "spans[0] must be 2 entries, got [0, 1, 2]"),
        ({"kind": "c"}, "kind must be a or b, got 'c'"),
        ({"kind": ["a"]}, "kind must be a or b, got ['a']"),
        ({"to": "next"}, "to must be previous, got 'next'"),
        ({"options": 3}, "options must be an object, got 3"),
        ({"note": 3}, "note must be text, got 3"),
    ],
)
def test_record_when_an_entry_does_not_fit_then_is_refused_with_its_place(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(MismatchError) as refusal:
        read_as(Outer, {**GOOD, **changes})
    assert str(refusal.value) == message


def test_record_when_free_values_are_nested_too_deeply_then_is_refused() -> None:
    nested: Any = 0
    for _ in range(MAX_NESTING + 1):
        nested = [nested]
    with pytest.raises(MismatchError, match=r"options\.nested is nested too deeply"):
        read_as(Outer, {**GOOD, "options": {"nested": nested}})


def test_reading_when_anything_fails_then_the_error_names_the_file_once() -> None:
    file = Path("a/result")
    failures = [KeyError("x"), IndexError("x"), TypeError("x"), OverflowError("x"), RecursionError(), ValueError("x")]
    for failure in [*failures, MismatchError("x is missing"), InputError("two metrics are equal")]:
        with (
            pytest.raises(InputError, match=r"^a/result is not a result that can be read: .") as refusal,
            reading(file, "a result"),
        ):
            raise failure
        assert str(refusal.value).count(str(file)) == 1
    with pytest.raises(InputError, match=r"^cannot read a/result$"), reading(file, "a result"):
        raise InputError("cannot read a/result")


def test_require_when_it_does_not_hold_then_raises() -> None:
    require(True, "fine")
    with pytest.raises(MismatchError, match="not fine"):
        require(False, "not fine")
