"""Parameters of methods, from Python values and from the strings of a command line."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import pytest

import thalweg as tw
from thalweg.methods.params import option, options, read_params, split_options


@dataclass(frozen=True)
class Params:
    count: int = option(3, "how many")
    share: float = option(0.5, "how much")
    head: int | None = option(None, "which")
    norm: Literal["l1", "l2"] = option("l2", "which norm")
    level: Literal[1, 2] | None = option(None, "which level")
    name: str = option("x", "what name")
    exact: bool = option(False, "to the last digit")


def read(**values: Any) -> Params:
    return read_params("toy", Params, values)


def test_params_when_no_value_is_passed_then_are_the_defaults() -> None:
    assert read() == Params()
    assert asdict(read())["norm"] == "l2"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", 7, 7),
        ("count", "7", 7),
        ("count", "-7", -7),
        ("share", 0.25, 0.25),
        ("share", "0.25", 0.25),
        ("share", 1, 1.0),
        ("share", "1e-3", 0.001),
        ("head", None, None),
        ("head", "none", None),
        ("head", "2", 2),
        ("norm", "l1", "l1"),
        ("level", None, None),
        ("level", 2, 2),
        ("level", "2", 2),
        ("name", "7", "7"),
        ("exact", True, True),
        ("exact", "yes", True),
        ("exact", "false", False),
        ("exact", "no", False),
    ],
)
def test_param_when_it_fits_then_is_read_with_its_type(name: str, value: object, expected: object) -> None:
    converted = getattr(read(**{name: value}), name)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", "seven", "an integer"),
        ("count", 7.0, "an integer"),
        ("count", "7.0", "an integer"),
        ("count", True, "an integer"),
        ("count", None, "an integer"),
        ("count", [7], "an integer"),
        ("count", "", "an integer"),
        ("share", "half", "a number"),
        ("share", False, "a number"),
        ("share", None, "a number"),
        ("head", 1.5, "an integer or none"),
        ("norm", "l3", "l1 or l2"),
        ("norm", "L1", "l1 or l2"),
        ("norm", None, "l1 or l2"),
        ("norm", ["l1"], "l1 or l2"),
        ("level", 3, "1 or 2 or none"),
        ("level", True, "1 or 2 or none"),
        ("name", 7, "text"),
        ("exact", "maybe", "yes or no"),
        ("exact", None, "yes or no"),
        ("exact", 2, "yes or no"),
    ],
)
def test_param_when_it_does_not_fit_then_the_error_names_value_and_type(
    name: str, value: object, expected: str
) -> None:
    with pytest.raises(tw.InputError) as caught:
        read(**{name: value})
    for fact in (name, expected, repr(value)):
        assert fact in str(caught.value)


def test_param_when_unknown_then_is_refused_with_the_known_ones() -> None:
    with pytest.raises(tw.InputError) as caught:
        read(zeal=1, alpha=2)
    message = str(caught.value)
    assert message.startswith("toy has no parameter 'alpha'")
    assert all(field.name in message for field in fields(Params))


def test_options_when_listed_then_say_default_type_and_meaning() -> None:
    listed = {entry.name: (entry.default, entry.choices, entry.meaning) for entry in options(Params)}
    assert listed["count"] == (3, "an integer", "how many")
    assert listed["head"] == (None, "an integer or none", "which")
    assert listed["norm"] == ("l2", "l1 or l2", "which norm")
    assert listed["exact"] == (False, "yes or no", "to the last digit")
    assert list(listed) == [field.name for field in fields(Params)]


def test_spec_when_it_has_options_then_is_split_into_name_and_values() -> None:
    assert split_options("alti") == ("alti", {})
    assert split_options("alti:measure=l2:rows-kept=3") == ("alti", {"measure": "l2", "rows_kept": "3"})


@pytest.mark.parametrize("spec", ["alti:measure", "alti:", "alti:layer=1:layer=2"])
def test_spec_when_an_option_has_no_value_or_comes_twice_then_is_refused(spec: str) -> None:
    with pytest.raises(tw.InputError, match=spec):
        split_options(spec)
