"""Signals wait while a model is prepared or restored, and act at once while it runs."""

import os
import signal
from collections.abc import Iterator

import pytest

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import snapshot
from thalweg.capture import observe
from thalweg.capture.interrupts import held_interrupts


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Background jobs of a shell start with SIGINT ignored; these tests need Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_signal_when_held_then_acts_at_the_end_of_the_block() -> None:
    steps: list[str] = []

    def held() -> None:
        with held_interrupts():
            interrupt()
            steps.append("after the signal")
        steps.append("after the block")

    with pytest.raises(KeyboardInterrupt):
        held()
    assert steps == ["after the signal"]


def test_signal_when_allowed_then_acts_at_once_and_later_ones_wait() -> None:
    steps: list[str] = []

    def interrupted() -> None:
        with held_interrupts() as interrupts:
            try:
                with interrupts.allowed():
                    interrupt()
                    steps.append("after the signal")
            finally:
                interrupt()
                steps.append("cleaned")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["cleaned"]


def test_handlers_when_the_block_ends_then_are_the_users_again() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with held_interrupts():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("moment", [1, 7, 30])
def test_model_when_interrupted_while_hooks_are_set_or_removed_then_none_is_left(
    monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    family = BY_NAME["bert"]
    subject = tw.load(family.build())
    subject.capture(family.inputs(1, 9))
    before, calls = snapshot(subject.model), 0
    original = observe.ModuleHooks.__init__

    def counting(self: observe.ModuleHooks, *arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            interrupt()
        original(self, *arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(observe.ModuleHooks, "__init__", counting)
    with pytest.raises(KeyboardInterrupt):
        [subject.capture(family.inputs(1, 9)) for _ in range(10)]
    assert snapshot(subject.model) == before
