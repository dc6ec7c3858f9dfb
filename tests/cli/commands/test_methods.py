"""`thalweg methods`: the list, and one method with its parameters."""

import pytest

from tests.command import Run
from thalweg.methods.registry import list_methods


def test_methods_when_listed_then_shows_every_name(run: Run) -> None:
    done = run("methods")
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in list_methods())


@pytest.mark.parametrize("name", list(list_methods()))
def test_method_when_named_then_shows_its_docstring_and_parameters_literally(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    done = run("methods", name)
    assert (done.code, done.err) == (0, "")
    method = list_methods()[name]
    shown = " ".join(done.out.split())
    assert " ".join((method.function.__doc__ or "").split()) in shown
    assert method.paper in shown
    for field in method.params.__dataclass_fields__:
        assert f"--{field.replace('_', '-')}" in shown


def test_methods_when_the_terminal_is_narrow_then_names_can_still_be_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert all(name in run("methods").out for name in list_methods())
