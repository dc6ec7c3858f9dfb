"""Methods by name, and their parameters from Python and from a command line."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import pytest

import thalweg as tw
from thalweg.capture.target import Target
from thalweg.methods.params import option, options
from thalweg.methods.registry import (
    Maps,
    Method,
    Traits,
    find_method,
    list_methods,
)


@dataclass(frozen=True)
class Params:
    count: int = option(3, "how many")
    share: float = option(0.5, "how much")
    head: int | None = option(None, "which")
    norm: Literal["l1", "l2"] = option("l2", "which norm")
    level: Literal[1, 2] | None = option(None, "which level")
    name: str = option("x", "what name")
    exact: bool = option(False, "to the last digit")


def toy(capture: Any, target: Target, params: Params) -> Maps:
    """What it says first.

    And then some more.
    """
    raise NotImplementedError


TOY = Method("toy", toy, Params, Traits(), "a paper", "nothing", "none")


def made(**given: Any) -> Params:
    return TOY.make_params(given)


def test_params_when_nothing_is_given_then_are_the_defaults() -> None:
    assert made() == Params()
    assert asdict(made())["norm"] == "l2"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
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
def test_param_when_it_fits_then_is_read_with_its_type(name: str, given: object, expected: object) -> None:
    found = getattr(made(**{name: given}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("count", "seven", "a whole number"),
        ("count", 7.0, "a whole number"),
        ("count", "7.0", "a whole number"),
        ("count", True, "a whole number"),
        ("count", None, "a whole number"),
        ("count", [7], "a whole number"),
        ("count", "", "a whole number"),
        ("share", "half", "a number"),
        ("share", False, "a number"),
        ("share", None, "a number"),
        ("head", 1.5, "a whole number or none"),
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
def test_param_when_it_does_not_fit_then_is_refused_with_what_does(name: str, given: object, expected: str) -> None:
    with pytest.raises(tw.InputError) as caught:
        made(**{name: given})
    assert str(caught.value) == f"parameter {name!r} was given {given!r}; expected {expected}"


def test_param_when_unknown_then_is_refused_with_the_known_ones() -> None:
    with pytest.raises(tw.InputError) as caught:
        made(zeal=1, alpha=2)
    message = str(caught.value)
    assert message.startswith("toy has no parameter 'alpha'")
    assert all(field.name in message for field in fields(Params))


@pytest.mark.parametrize("name", ["", "alti2", "Attention_Rollout", "raw attention", "__init__"])
def test_method_when_unknown_then_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(tw.InputError) as caught:
        find_method(name)
    assert repr(name) in str(caught.value)
    assert "attention_rollout" in str(caught.value)


def test_options_when_listed_then_say_default_type_and_meaning() -> None:
    found = {one.name: (one.default, one.choices, one.meaning) for one in options(Params)}
    assert found["count"] == (3, "a whole number", "how many")
    assert found["head"] == (None, "a whole number or none", "which")
    assert found["norm"] == ("l2", "l1 or l2", "which norm")
    assert found["exact"] == (False, "yes or no", "to the last digit")
    assert list(found) == [field.name for field in fields(Params)]


def test_summary_when_there_are_more_lines_then_is_the_first() -> None:
    assert TOY.summary == "What it says first."


def test_methods_when_listed_then_are_sorted_complete_and_cannot_be_changed() -> None:
    known = list_methods()
    assert list(known) == sorted(known)
    assert len(known) >= 2
    for name, one in known.items():
        assert name == one.name == one.function.__name__
        assert one.summary
        assert one.summary.endswith((".", ":")) or len(one.summary) < 100
        assert one.paper
        assert one.cost
        assert one.guarantee
        assert find_method(name) is one
        assert one.params() == one.make_params({})
        assert all(choice.meaning for choice in options(one.params))
    with pytest.raises(TypeError):
        known["mine"] = TOY  # pyright: ignore[reportIndexIssue]
