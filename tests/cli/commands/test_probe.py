"""`thalweg probe`: train probes, apply saved ones, and refuse unusable input."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import thalweg as tw
from tests.probing.corpus import sentences
from tests.tiny import SENTENCE, save_folder
from thalweg.cli.commands.probe import probe

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(probe)
TEXTS = sentences(20)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("model")))


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.mark.usefixtures("as_a_user")
def test_probes_when_trained_and_applied_then_answer(model: str, tmp_path: Path) -> None:
    file, out = tmp_path / "texts.txt", tmp_path / "out"
    file.write_text("\n".join(TEXTS))
    choices = ("--file", str(file), "--model", model, "--kinds", "identity,linear", "--metrics", "cosine")
    shown = run(*choices, "--out", str(out))
    assert "linear, cosine" in shown
    assert "chance" in shown
    answer = json.loads(run(*choices, "--out", str(out), "--json", "-"))
    assert answer["rates"][0]["rate"] == 1.0
    assert "recovered tokens" in run("--apply", str(out), "--model", model, SENTENCE)
    recovery = json.loads(run("--apply", str(out), "--model", model, SENTENCE, "--json", "-"))
    assert len(recovery["hits"]) == 4
    with pytest.raises(tw.InputError, match=r"seed \(0 there, 1 here\)"):
        run(*choices, "--out", str(out), "--seed", "1")


def test_file_when_it_has_one_line_then_is_refused(model: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(SENTENCE)
    with pytest.raises(tw.InputError, match=r"got 1$"):
        run("--file", str(file), "--model", model)


def test_command_when_called_without_a_file_or_probes_then_says_what_to_pass() -> None:
    for words in ((), ("a text",), ("--apply", "x"), ("--apply", "x", "--file", "y", "a text")):
        with pytest.raises(tw.InputError, match=r"--file .*--apply"):
            run(*words)
