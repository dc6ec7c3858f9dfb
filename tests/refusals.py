"""Helpers for tests of refusals: the error, its facts, and a model that is left as it was."""

from collections.abc import Callable

import pytest

import thalweg as tw
from tests.tiny import snapshot


def assert_refused(subject: tw.Subject, act: Callable[[], object], error: type[Exception], *facts: str) -> None:
    """The act raises this error in one line with all facts, and the model is as before."""
    before = snapshot(subject.model)
    with pytest.raises(error) as caught:
        act()
    assert snapshot(subject.model) == before
    assert_states(caught.value, *facts)


def assert_states(error: BaseException, *facts: str) -> None:
    """The error is one line that holds all facts."""
    message = str(error)
    assert "\n" not in message
    for fact in facts:
        assert fact in message
