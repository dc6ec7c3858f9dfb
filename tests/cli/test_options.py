"""Options: their values, and their help in one voice."""

import inspect
from typing import get_args

import pytest
import typer.models

from thalweg.cli import options
from thalweg.cli.options import integer_or_text, set_options, split_names

SHARED = {
    name: next(part for part in get_args(value)[1:] if isinstance(part, typer.models.ParameterInfo))
    for name, value in vars(options).items()
    if any(isinstance(part, typer.models.ParameterInfo) for part in get_args(value)[1:])
}


@pytest.mark.parametrize(
    ("value", "names"),
    [(None, None), ("", []), ("alti", ["alti"]), (" alti, raw_attention ,", ["alti", "raw_attention"])],
)
def test_names_when_comma_separated_then_are_split(value: str | None, names: list[str] | None) -> None:
    assert split_names(value) == names


@pytest.mark.parametrize(("value", "meaning"), [(None, None), ("5", 5), ("-8", -8), ("cat", "cat"), ("1.5", "1.5")])
def test_value_when_an_integer_then_becomes_one(value: str | None, meaning: object) -> None:
    assert integer_or_text(value) == meaning


def test_options_when_unused_then_are_dropped() -> None:
    assert set_options(methods=None, seed=0, words=False) == {"seed": 0, "words": False}


@pytest.mark.parametrize("name", SHARED)
def test_help_when_shown_then_is_one_line_without_a_full_stop(name: str) -> None:
    text = SHARED[name].help or ""
    assert text == inspect.cleandoc(text) != ""
    assert text[0].isupper()
    assert "\n" not in text
    assert not text.endswith(".")
