"""Progress bars: on a terminal, after a while, and only the outermost."""

import sys

import pytest

from thalweg import progress as module
from thalweg.progress import hidden_progress, progress


class Terminal:
    """A stream that claims to be a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in place of stderr; pytest replaces stderr before each test, so a fixture would be too early."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "DELAY_SECONDS", -1.0)
    return stream


def test_bar_when_on_a_terminal_after_the_delay_then_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress("scoring") as report:
        report(1, 2)
    assert "scoring" in terminal.text


def test_bar_when_the_work_is_short_then_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(module, "DELAY_SECONDS", 100.0)
    with progress("scoring") as report:
        report(1, 2)
    assert terminal.text == ""


def test_bar_when_inside_another_then_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress("outer") as outer, progress("inner") as inner:
        outer(1, 2)
        inner(1, 2)
    assert "outer" in terminal.text
    assert "inner" not in terminal.text


def test_bar_when_the_work_fails_then_the_next_is_outermost_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress("first"):
        _ = 1 / 0
    with progress("second") as report:
        report(1, 2)
    assert "second" in terminal.text


def test_bar_when_not_on_a_terminal_then_is_not_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELAY_SECONDS", -1.0)
    with progress("scoring") as report:
        report(1, 2)
    assert capfd.readouterr().err == ""


def test_bar_when_hidden_then_is_not_shown_until_the_end_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with hidden_progress(), progress("quiet") as report:
        report(1, 2)
    assert terminal.text == ""
    with progress("loud") as report:
        report(1, 2)
    assert "loud" in terminal.text
