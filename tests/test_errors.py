"""Errors are builtins too, and fit on one line."""

import pytest

import thalweg as tw
from thalweg.errors import MissingExtraError, error_line


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
