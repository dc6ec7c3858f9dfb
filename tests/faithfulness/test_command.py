"""`thalweg bench` as a person uses it: a file in, a table and a folder of rows out."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jaxtyping
import pytest

from tests.tiny import save_folder
from thalweg.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Run]:
    """The command in this process and an empty folder, without the type checks of a test run."""
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("the old dog runs\na new cat is good\nthis film is bad\n")
    save_folder(tmp_path / "model")

    def command(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["thalweg", "bench", *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capfd.readouterr()
        return Done(int(str(code or 0)), captured.out, " ".join(captured.err.split()))

    jaxtyping.config.update("jaxtyping_disable", True)
    yield command
    jaxtyping.config.update("jaxtyping_disable", False)


def test_command_when_run_twice_then_shows_the_same_from_the_same_folder(run: Run, tmp_path: Path) -> None:
    words = ("--data", "texts.txt", "--model", "model", "--methods", "alti,random", "--metrics", "aopc,sufficiency_pad")
    first, second = run(*words), run(*words)
    assert first.code == 0, first.err
    assert first.out == second.out
    for part in ("aopc_delete ↑", "sufficiency_pad ↓", "no difference found", "forward passes", "3 examples"):
        assert part in first.out
    assert len(list(tmp_path.glob("bench-*/rows.parquet"))) == 1


def test_command_when_json_is_asked_for_then_writes_means_pairs_and_cost(run: Run) -> None:
    done = run("--data", "texts.txt", "--model", "model", "--methods", "alti,random,alti:layer=0", "--metrics", "aopc",
               "--limit", "2", "--seed", "3", "--out", "here", "--inverses", "--json", "-")  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    (metric,) = found["metrics"]
    assert metric["name"] == "aopc_delete"
    assert set(metric["means"]) == {
        "alti", "inverse_alti", "random", "inverse_random", "alti:layer=0", "inverse_alti:layer=0",
    }  # fmt: skip
    assert (found["examples"], found["configuration"]["seed"], found["folder"]) == (2, 3, "here")
    assert found["cost"]["total"] > 0


def test_command_when_a_method_fails_then_shows_its_error_and_the_others(run: Run) -> None:
    done = run("--data", "texts.txt", "--model", "model", "--methods", "alti:layer=9,random", "--metrics", "aopc")
    assert done.code == 0
    assert "alti:layer=9 failed on 3 of 3 examples" in done.out


def test_command_when_a_list_is_asked_for_then_shows_metrics_and_baselines(run: Run) -> None:
    done = run("--list")
    assert done.code == 0
    assert "comprehensiveness ↑" in done.out
    assert "integrated_gradients" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --data"),
        (("--data", "nowhere.txt"), "cannot read 'nowhere.txt'"),
        (("--data", "texts.txt", "--methods", "alchemy"), "unknown method 'alchemy'"),
        (("--data", "texts.txt", "--metrics", "beauty"), "unknown metric 'beauty'"),
        (("--data", "texts.txt", "--operator", "burn"), "operator was given 'burn'"),
        (("--data", "texts.txt", "--methods", "alti:depth=3"), "has no parameter 'depth'"),
    ],
)
def test_command_when_a_user_errs_then_says_so_in_a_sentence(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run("--model", "model", *words)
    assert done.code == 2
    assert said in done.err
