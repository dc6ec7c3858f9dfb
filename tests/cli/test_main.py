"""The command `thalweg`: discovery of commands, exit codes, errors on one line."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import thalweg as tw
from tests.command import Done, Run
from tests.probing.corpus import sentences
from tests.tiny import save_folder
from thalweg.cli import commands
from thalweg.cli.main import build_app
from thalweg.files.run_folder import DIGESTS


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
    "unknown_flag": (("explain", "the cat", "--zeal", "5"), ("'--zeal'", "--layer")),
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
    "unwritable_out": (("explain", "the cat", "--out", "/nowhere/a"), ("/nowhere/a",)),
    "folder_as_json": (("explain", "the cat", "--json", "/tmp"), ("/tmp",)),
    "trust_of_nothing": (("trust",), ("either a text (- for stdin) or --file",)),
    "trust_of_two_things": (("trust", "the cat", "--file", "texts.txt"), ("either a text (- for stdin) or --file",)),
    "trust_layer_alone": (("trust", "the cat", "--layer", "0"), ("--head", "go together")),
    "trust_head_out_of_range": (("trust", "the cat", "--layer", "0", "--head", "4"), ("head", "4", "0 to 3")),
    "trust_target_without_head": (("trust", "the cat", "--target", "cat"), ("--layer and --head",)),
    "trust_missing_file": (("trust", "--by-length", "--file", "/nowhere.txt"), ("cannot read", "/nowhere.txt")),
    "trust_folder_as_file": (("trust", "--by-length", "--file", "/tmp"), ("cannot read", "/tmp")),
    "trust_binary_file": (("trust", "--by-length", "--file", sys.executable), (sys.executable, "UTF-8")),
    "trust_empty_file": (("trust", "--by-length", "--file", "/dev/null"), ("is empty",)),
    "mix_of_nothing": (("mix",), ("either a text (- for stdin) or --file",)),
    "mix_of_two_things": (("mix", "the cat", "--file", "texts.txt"), ("either a text (- for stdin) or --file",)),
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


COMMANDS = {
    "corpus": ("--file", "texts.txt", "--shard", "1"),
    "bench": ("--file", "texts.txt", "--methods", "alti,random"),
    "probe": ("--file", "texts.txt"),
    "train": ("--file", "data.csv", "--width", "16", "--key-size", "4", "--epochs", "9999", "--patience", "9999"),
}


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [("corpus", "SIGINT", 130), ("bench", "SIGTERM", 143), ("probe", "SIGINT", 130), ("train", "SIGTERM", 143)],
)
def test_run_when_interrupted_then_says_how_to_resume_and_exits_with_the_code_of_the_signal(
    tmp_path: Path, model: str, command: str, number: str, code: int
) -> None:
    texts = sentences(400)
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    labelled = (f"{text},{len(text) % 2}" for text in texts)
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *labelled]))
    words = [sys.executable, "-m", "thalweg", command, *COMMANDS[command], "--out", "run"]
    words += [] if command == "train" else ["--model", model]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (tmp_path / "run" / DIGESTS).exists():
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(getattr(signal, number))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err == "interrupted; run the same command again to resume\n"
    assert not list((tmp_path / "run").glob("*.draft"))


def test_command_when_interrupted_without_a_run_then_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("thalweg.cli.commands.methods.Console", lambda: signal.raise_signal(signal.SIGINT))
    done = run("methods")
    assert (done.code, done.message) == (130, "interrupted (exit code 130)")
    assert signal.getsignal(signal.SIGINT) is before


def test_damaged_file_when_noticed_then_is_reported_on_one_line(run: Run, model: str, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the cat\nthe dog")
    words = ("corpus", "--model", model, "--file", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "run"))
    assert run(*words).code == 0
    shard = tmp_path / "run" / "shard-000000.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])
    done = run(*words)
    assert done.code == 0
    assert done.message.startswith("warning: ")
    assert "shard-000000.parquet is damaged" in done.message
    assert run(*words).err == ""


@pytest.mark.parametrize("name", ["run.json", "digests.txt", "page.json", "more/a.json"])
@pytest.mark.parametrize("command", ["corpus", "bench", "probe", "train"])
def test_output_when_inside_the_folder_of_the_run_then_is_refused_before_anything_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    done = run(command, *COMMANDS[command], "--out", "run", "--json", f"link/../run/{name}")
    assert done.code == 2
    assert "inside a run folder" in done.message
    assert not (tmp_path / "run").exists()
