"""Options: their values, and their help in one voice."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer.models

from tests.cli.everything import subcommands
from tests.command import Run
from thalweg.cli import options
from thalweg.cli.main import build_app
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


TOGETHER = (
    ("--png", "--svg", "--pdf", "--html"),
    ("--file", "--text-column"),
    ("--model", "--task", "--device", "--dtype", "--truncate"),
    ("--pair", "--pair-column", "--file", "text"),
)


def declared() -> Iterator[tuple[str, Any]]:
    """Every command with its name, subcommands included."""
    root: Any = typer.main.get_command(build_app())
    for name, command in root.commands.items():
        yield name, command
        yield from ((f"{name} {inner}", entry) for inner, entry in getattr(command, "commands", {}).items())


def test_options_when_declared_then_come_together_and_mean_the_same_in_every_command() -> None:
    commands = {name: {flag: param for param in entry.params for flag in param.opts} for name, entry in declared()}
    assert set(commands) == set(subcommands())
    for group in TOGETHER:
        for name, flags in commands.items():
            present = {flag for flag in group if flag in flags}
            assert not present or present == set(group) or group[0] not in present, (name, present)
    meanings: dict[str, set[str]] = {}
    for flags in commands.values():
        for flag, param in flags.items():
            if flag in ("--file", "--json", "--html", "--png", "--svg", "--pdf", "--model", "--device", "--truncate"):
                meanings.setdefault(flag, set()).add(param.help)
    assert {flag: len(texts) for flag, texts in meanings.items()} == dict.fromkeys(meanings, 1)
    assert {"--json"} <= set.intersection(
        *(set(flags) for name, flags in commands.items() if name not in ("methods", "report", "corpus export"))
    )
    assert not {"--data", "--save", "--lengths"} & {flag for flags in commands.values() for flag in flags}


@pytest.mark.parametrize("name", subcommands())
def test_misspelt_option_when_close_to_another_then_the_error_suggests_it(run: Run, name: str) -> None:
    words = subcommands()[name]
    others = {"methods": ("--hlp", "--help"), "report": ("--htlm", "--html"), "corpus export": ("--cvs", "--csv")}
    wrong, right = others.get(name, ("--jsn", "--json"))
    done = run(*words, wrong, "x")
    assert done.code == 2
    assert f"unknown option {wrong!r}; did you mean {right!r}?" in done.message


def test_misspelt_command_when_close_to_another_then_the_error_suggests_it(run: Run) -> None:
    for words, right in ((("explian", "x"), "explain"), (("corpus", "qeury"), "query")):
        done = run(*words)
        assert done.code == 2
        assert f"did you mean {right!r}?" in done.message


@pytest.mark.parametrize("name", subcommands())
def test_help_when_requested_by_one_letter_then_is_shown(run: Run, name: str) -> None:
    short, long = run(*subcommands()[name], "-h"), run(*subcommands()[name], "--help")
    assert short == long
    assert (short.code, short.err) == (0, "")
    assert f"thalweg {name}" in short.out


def test_completion_when_requested_by_a_shell_then_offers_commands_and_options(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_THALWEG_COMPLETE", "complete_bash")
    for line, offer in (("thalweg exp", "explain"), ("thalweg explain --trunc", "--truncate")):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
        assert offer in run().out.split()
