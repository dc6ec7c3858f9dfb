"""`thalweg bench`: a file in, a table and a folder of rows out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Run
from tests.tiny import save_folder

MODEL = ("bench", "--model", "model")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with three texts and a tiny model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("the old dog runs\na new cat is good\nthis film is bad\n")
    save_folder(tmp_path / "model")


def test_command_when_run_twice_then_shows_the_same_from_the_same_folder(run: Run, tmp_path: Path) -> None:
    words = (*MODEL, "--file", "texts.txt", "--methods", "alti,random", "--metrics", "aopc,sufficiency_pad")
    first, second = run(*words), run(*words)
    assert first.code == 0, first.err
    assert first.out == second.out
    for part in ("aopc_delete ↑", "sufficiency_pad ↓", "no difference found", "forward passes", "3 examples"):
        assert part in first.out
    assert len(list(tmp_path.glob("bench-*/rows.parquet"))) == 1


def test_command_when_json_is_requested_then_writes_means_pairs_and_cost(run: Run) -> None:
    done = run(*MODEL, "--file", "texts.txt", "--methods", "alti,random,alti:layer=0", "--metrics", "aopc",
               "--limit", "2", "--seed", "3", "--out", "here", "--inverses", "--json", "-")  # fmt: skip
    assert done.code == 0, done.err
    result = json.loads(done.out)
    (metric,) = result["metrics"]
    assert metric["name"] == "aopc_delete"
    assert set(metric["means"]) == {
        "alti", "inverse_alti", "random", "inverse_random", "alti:layer=0", "inverse_alti:layer=0",
    }  # fmt: skip
    assert (result["examples"], result["configuration"]["seed"], result["folder"]) == (2, 3, "here")
    assert result["cost"]["total"] > 0


def test_command_when_a_method_fails_then_shows_its_error_and_the_others(run: Run) -> None:
    done = run(*MODEL, "--file", "texts.txt", "--methods", "alti:layer=9,random", "--metrics", "aopc")
    assert done.code == 0
    assert "alti:layer=9 failed on 3 of 3 examples" in done.out


def test_command_when_a_list_is_requested_then_shows_metrics_and_baselines(run: Run) -> None:
    done = run("bench", "--list")
    assert done.code == 0
    assert "comprehensiveness ↑" in done.out
    assert "random" in done.out


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ((), ("--file",)),
        (("--file", "nowhere.txt"), ("nowhere.txt",)),
        (("--file", "texts.txt", "--methods", "alchemy"), ("unknown method 'alchemy'",)),
        (("--file", "texts.txt", "--metrics", "beauty"), ("unknown metric 'beauty'",)),
        (("--file", "texts.txt", "--operator", "burn"), ("operator", "delete, mask or pad", "'burn'")),
        (("--file", "texts.txt", "--methods", "alti:depth=3"), ("has no parameter 'depth'",)),
        (("--file", "texts.txt", "--methods", "alti:layer=0:layer=1"), ("alti:layer=0:layer=1", "each once")),
        (("--file", "texts.txt", "--methods", "inverse_inverse_alti"), ("use 'alti'",)),
        (("--file", "texts.txt", "--methods", ","), ("at least one method",)),
        (("--file", "texts.txt", "--metrics", "aopc,aopc_delete"), ("different", "aopc_delete")),
        (("--file", "texts.txt", "--metrics", "seed_robustness"), ("seed_robustness", "--other-seeds")),
        (("--file", "texts.txt", "--seed", "-1"), ("seed must be at least 0, got -1",)),
        (("--file", "texts.txt", "--limit", "0"), ("--limit",)),
        (("--file", "texts.txt", "--task", "encoder"), ("'encoder'", "supports classifiers")),
        (("--file", "texts.txt", "--out", "texts.txt"), ("texts.txt is a file",)),
        (("--file", "texts.txt", "--out", "texts.txt/run"), ("texts.txt/run", "Not a directory")),
        (("--file", "texts.txt", "--out", "model"), ("not part of a bench run", "config.json")),
        (("--file", "texts.txt", "--json", "nowhere/a.json"), ("nowhere",)),
        (("--file", "texts.txt", "--max-tokens", "2"), ("all 3 examples", "6 tokens", "max_tokens=2")),
    ],
)
def test_command_when_an_argument_is_invalid_then_the_error_has_its_facts(
    run: Run, words: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    done = run(*MODEL, *words)
    assert done.code == 2
    assert [fact for fact in facts if fact not in done.message] == []
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("a.txt", b"", "is empty"),
        ("a.tsv", b"text\n", "is empty"),
        ("a.txt", b"\xff\x00\x01", "NUL"),
        ("a.parquet", b"PAR1 it is not", "Parquet"),
        ("a.jsonl", b"{not json", "line 1 of"),
        ("a.txt", b"dog " * 900, "64"),
    ],
)
def test_command_when_its_file_is_invalid_then_the_error_has_its_facts(
    run: Run, tmp_path: Path, name: str, content: bytes, fact: str
) -> None:
    (tmp_path / name).write_bytes(content)
    done = run(*MODEL, "--file", name, "--methods", "random", "--metrics", "aopc")
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert fact in done.message


def test_command_when_a_text_has_one_word_then_it_can_still_be_removed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("dog\n")
    done = run(*MODEL, "--file", "one.txt", "--methods", "alti,random", "--metrics", "aopc,naopc", "--json", "-")
    assert done.code == 0, done.err
    counts = {metric["name"]: metric["means"]["alti"]["count"] for metric in json.loads(done.out)["metrics"]}
    assert counts == {"aopc_delete": 1, "naopc_delete": 0}


@pytest.mark.parametrize("columns", [80, 120])
def test_table_when_the_screen_is_narrow_then_no_line_is_longer_and_no_name_is_cut(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    methods = "alti,attention_rollout:residual=measured,hidden_token_attribution,integrated_gradients"
    done = run(*MODEL, "--file", "texts.txt", "--methods", methods, "--metrics", "aopc,randomisation")
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= columns
    for name in methods.split(","):
        assert f"\n{name} " in done.out


def test_command_when_the_disk_is_full_then_stops_with_an_error_and_can_be_resumed(run: Run, tmp_path: Path) -> None:
    """A limit on the size of files lets the header through, but no rows."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2500, resource.RLIM_INFINITY));"
        "from thalweg.cli.main import main; main()"
    )
    words = [*MODEL, "--file", "texts.txt", "--methods", "alti,random", "--metrics", "aopc", "--out", "here"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    message = " ".join(done.stderr.split())
    for fact in ("here", "File too large", "resumes the run"):
        assert fact in message
    assert sorted(file.name for file in (tmp_path / "here").iterdir()) == ["digests.txt", "run.json", "run.lock"]
    assert run(*words).code == 0
