"""Errors are builtins too, and fit on one line."""

import pytest

import thalweg as tw
from thalweg.errors import MissingExtraError, closest, error_line, unknown_name


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (tw.InputError, ValueError),
        (tw.ModelError, ValueError),
        (tw.ProofError, ArithmeticError),
        (MissingExtraError, ImportError),
    ],
)
def test_errors_when_caught_as_builtins_then_are_caught(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, tw.ThalwegError)
    assert issubclass(error, builtin)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (tw.InputError("top must be\n  at least 1"), "top must be at least 1"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("first\nsecond"), "RuntimeError: first second"),
        (tw.InputError("lone \ud800"), "lone \\ud800"),
    ],
    ids=["ours", "third_party", "lines", "surrogate"],
)
def test_error_when_put_on_one_line_then_has_no_breaks_and_a_type_unless_ours(error: Exception, line: str) -> None:
    assert error_line(error) == line


def test_names_when_misspelt_then_the_nearest_is_suggested_and_dashes_do_not_count() -> None:
    assert str(unknown_name("task", "clasification", ["classification", "encoder"])) == (
        "unknown task 'clasification'; did you mean 'classification'?"
    )
    assert str(unknown_name("task", "x", ["classification", "encoder"])) == (
        "unknown task 'x'; expected one of classification, encoder"
    )
    assert str(unknown_name("task", "x", [])).endswith("expected one of none")
    assert closest("--htlm", ["--html", "-h"]) == "--html"
    assert closest("--zeal", ["--head", "--layer"]) is None


def test_error_when_its_message_holds_control_characters_then_they_are_spelt_out() -> None:
    for kind in (tw.ThalwegError, tw.InputError, tw.ModelError, tw.ProofError, MissingExtraError):
        assert str(kind("no file '\x1b[2J\nx\u202e'")) == "no file '\\x1b[2J\\nx\\u202e'"
        assert str(kind()) == ""
