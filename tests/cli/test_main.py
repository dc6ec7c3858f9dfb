"""The command `thalweg`: discovery of commands, exit codes, errors on one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import thalweg as tw
from tests.command import Done, Run
from tests.tiny import save_folder
from thalweg.cli import commands
from thalweg.cli.main import build_app


@pytest.fixture(scope="module")
def unprovable(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("unprovable"), "bitnet"))


TOY = """
from typing import Annotated

import typer

from thalweg.cli.options import Words


def shout(text: Annotated[str, typer.Argument(help="Text to shout")], words: Words = False) -> None:
    \'\'\'Print a text in capitals.\'\'\'
    print(text.upper() if not words else text.upper().split())
"""


@pytest.mark.usefixtures("as_a_user")
def test_command_when_a_file_is_added_then_needs_no_other_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shout.py").write_text(TOY)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    listed = CliRunner().invoke(build_app(), ["--help"])
    assert "Print a text in capitals" in listed.stdout
    assert "explain" in listed.stdout
    done = CliRunner().invoke(build_app(), ["shout", "the cat", "--words"])
    assert (done.exit_code, done.stdout) == (0, "['THE', 'CAT']\n")
    assert "Merge tokens into words" in CliRunner().invoke(build_app(), ["shout", "--help"]).stdout
    del sys.modules["thalweg.cli.commands.shout"]


def test_commands_when_listed_then_are_the_modules_of_their_folder(run: Run) -> None:
    shown = run("--help").out
    modules = {path.stem for path in Path(commands.__path__[0]).glob("[a-z]*.py")}
    assert len(modules) >= 10
    assert all(f" {name} " in shown for name in modules)


def test_options_when_shown_in_help_then_have_a_text_without_a_full_stop() -> None:
    app = typer.main.get_command(build_app())
    assert isinstance(app, TyperGroup)
    texts = {
        f"{name} {option.name}": getattr(option, "help", None) or ""
        for name, command in app.commands.items()
        for option in command.params
    }
    assert len(texts) > 80
    assert [place for place, text in texts.items() if not text or text.endswith(".")] == []


def test_version_and_help_when_requested_then_are_shown(run: Run) -> None:
    assert run("--version") == Done(0, f"{tw.__version__}\n", "")
    for arguments in ((), ("explain",), ("compare",), ("methods",)):
        done = run(*arguments, "--help")
        assert (done.code, done.err) == (0, "")
        assert "Usage:" in done.out
        assert "thalweg" in done.out
    assert all(command in run("--help").out for command in ("explain", "compare", "methods"))


MISTAKES = {
    "empty_text": (("explain", ""), ("''", "empty")),
    "unknown_method": (("explain", "the cat", "--method", "alchemy"), ("alchemy", "raw_attention")),
    "unknown_flag": (("explain", "the cat", "--zeal", "5"), ("'zeal'", "layer")),
    "flag_without_value": (("explain", "the cat", "--layer"), ("--layer", "needs a value")),
    "flag_followed_by_flag": (
        ("explain", "the cat", "--layer", "--head", "1"),
        ("--layer", "needs a value"),
    ),
    "wrong_value": (("explain", "the cat", "--layer", "top"), ("layer", "'top'")),
    "layer_out_of_range": (("explain", "the cat", "--layer", "7"), ("layer 7", "0 to 2")),
    "head_out_of_range": (("explain", "the cat", "--head", "4"), ("head", "4", "0 to 3")),
    "target_out_of_range": (("explain", "the cat", "--target", "4"), ("4", "0 to 3")),
    "target_unknown": (("explain", "the cat", "--target", "zebra"), ("'zebra'", "cat")),
    "target_text": (("explain", "the cat", "--target-text", "a dog"), ("target_text",)),
    "text_without_quotes": (("explain", "the", "cat"), ("'cat'", "quote")),
    "unknown_task": (("explain", "the cat", "--task", "divination"), ("'divination'",)),
    "one_method": (("compare", "the cat", "--methods", "raw_attention"), ("raw_attention",)),
    "unknown_method_to_compare": (
        ("compare", "the cat", "--methods", "raw_attention,alchemy"),
        ("alchemy",),
    ),
    "unwritable_json": (("explain", "the cat", "--json", "/nowhere/a.json"), ("/nowhere/a.json",)),
    "unwritable_save": (("explain", "the cat", "--save", "/nowhere/a"), ("/nowhere/a",)),
    "folder_as_json": (("explain", "the cat", "--json", "/tmp"), ("/tmp",)),
    "trust_of_nothing": (("trust",), ("either a text or --lengths",)),
    "trust_of_two_things": (("trust", "the cat", "--lengths", "texts.txt"), ("either a text or --lengths",)),
    "trust_layer_alone": (("trust", "the cat", "--layer", "0"), ("--head", "go together")),
    "trust_head_out_of_range": (("trust", "the cat", "--layer", "0", "--head", "4"), ("head", "4", "0 to 3")),
    "trust_target_without_head": (("trust", "the cat", "--target", "cat"), ("--layer and --head",)),
    "trust_missing_file": (("trust", "--lengths", "/nowhere.txt"), ("cannot read", "/nowhere.txt")),
    "trust_folder_as_file": (("trust", "--lengths", "/tmp"), ("cannot read", "/tmp")),
    "trust_binary_file": (("trust", "--lengths", sys.executable), (sys.executable, "UTF-8")),
    "trust_empty_file": (("trust", "--lengths", "/dev/null"), ("is empty",)),
    "mix_of_nothing": (("mix",), ("either a text or --file",)),
    "mix_of_two_things": (("mix", "the cat", "--file", "texts.txt"), ("either a text or --file",)),
    "mix_without_maps": (("mix", "the cat", "--methods", "raw_attention"), ("raw_attention", "layer")),
    "mix_unknown_start": (("mix", "the cat", "--start", "top"), ("'top'", "embeddings")),
    "mix_missing_file": (("mix", "--file", "/nowhere.txt"), ("cannot read",)),
    "probe_of_nothing": (("probe",), ("either --file",)),
    "broken_text": (("explain", "the \udcff cat"), ("\\udcff",)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_when_made_then_exits_with_two_and_the_facts_on_one_line(run: Run, model: str, name: str) -> None:
    arguments, facts = MISTAKES[name]
    done = run(*arguments, "--model", model)
    assert done.code == 2
    assert done.out == ""
    assert done.message.startswith("error: ")
    assert "Traceback" not in done.err
    for part in facts:
        assert part in done.message


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain",),
        ("frobnicate",),
        ("methods", "alchemy"),
        ("explain", "the cat", "--model", "./nowhere"),
        ("explain", "the cat", "--model", "someone/unknown"),
        ("--frob",),
    ],
    ids=["no_text", "command", "method", "folder", "hub_name", "option"],
)
def test_command_when_not_understood_then_exits_with_two(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err
    assert "Traceback" not in done.err


def test_failure_when_a_block_is_not_proved_then_exits_with_one_and_one_line(run: Run, unprovable: str) -> None:
    done = run("explain", "the cat", "--model", unprovable)
    assert done.code == 1
    assert done.out == ""
    assert "attention" in done.message
    assert "Traceback" not in done.err


def test_debug_when_switched_on_then_shows_the_traceback(run: Run, model: str, unprovable: str) -> None:
    for code, text, folder in ((2, "", model), (1, "the cat", unprovable)):
        done = run("--debug", "explain", text, "--model", folder)
        assert done.code == code
        assert "Traceback" in done.err


def test_debug_when_after_the_command_then_works_too(run: Run, model: str) -> None:
    done = run("explain", "", "--model", model, "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "is empty" in done.err


def test_error_when_not_on_a_terminal_then_stays_on_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = run("explain", "the cat", "--model", "./" + "nowhere" * 20)
    assert done.code == 2
    assert "nowhere" * 20 in done.err  # a script that looks for it finds it


def test_process_when_run_then_writes_only_its_json(model: str) -> None:
    code = "from thalweg.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", "the cat 😀", "--model", model, "--json", "-"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["sources"]["texts"] == ["the cat 😀"]


def test_module_when_run_with_python_m_then_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", "--version"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tw.__version__}\n", "")
