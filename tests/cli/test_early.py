"""Checks before torch is imported: refusals, lists and help need none of it, and fall back on it if they must."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg as tw
from tests.cli.everything import LISTS, RUNS, subcommands
from tests.methods import how_to
from thalweg.cli.early import check_model, check_text, early
from thalweg.methods.registry import list_methods

HEAVY = ("torch", "transformers", "numpy", "scipy", "numba", "pandas", "duckdb", "pyarrow", "matplotlib")
WITH_METHODS = ("compare", "mix", "report", "bench", "corpus")
WITH_FILES = ("trust by length", "bench", "corpus", "probe", "train")
WITH_FOLDERS = ("bench", "corpus", "probe", "train")


def cases() -> dict[str, tuple[tuple[str, ...], int]]:
    """Arguments and exit code of everything that can be answered without torch, over all commands."""
    listed = {"version": (("--version",), 0), **{name: (words, 0) for name, words in LISTS.items()}}
    listed |= {
        f"{name} {flag}": ((*words, flag), 0) for name, words in subcommands().items() for flag in ("-h", "--help")
    }
    refused: dict[str, tuple[str, ...]] = {
        "command": ("explian",),
        "method": ("methods", "alchemy"),
        "explained method": (*RUNS["explain"], "--method", "alchemy"),
        "parameter": (*RUNS["explain"], "--zeal", "3"),
        "value of a parameter": (*RUNS["explain"], "--layer", "top"),
        "metric": (*RUNS["bench"], "--metrics", "beauty"),
        "operator": (*RUNS["bench"], "--operator", "burn"),
        "certificate": (*RUNS["corpus"], "--certificate", "some"),
        "kind of text": (*RUNS["corpus"], "--text", "some"),
        "column of ids": (*RUNS["corpus"], "--file", "films.csv", "--id-column", "key"),
        "engine": (*RUNS["corpus"], "--engine", "steam"),
        "start": (*RUNS["mix"], "--start", "top"),
        "kinds": (*RUNS["probe"], "--kinds", "magic"),
        "epochs": (*RUNS["train"], "--epochs", "0"),
        "run of a query": ("corpus", "query", "model", "SELECT 1"),
        "run of a report": ("corpus", "report", "model"),
        "run of an export": ("corpus", "export", "model", "--csv", "a.csv"),
        "exported table": (*RUNS["corpus export"], "--table", "tables"),
        "exported suffix": (*RUNS["corpus export"], "--csv", "a.json"),
        "exported file": (*RUNS["corpus export"], "--csv", "-"),
        "applied probes": ("probe", "the cat", "--apply", "model"),
        "pair of a file": ("mix", "--file", "texts.txt", "--pair", "x"),
        "several texts": ("explain", "--file", "texts.txt"),
        "one file twice": (*RUNS["explain"], "--json", "a", "--html", "a"),
    }
    for name, words in RUNS.items():
        refused[f"{name} option"] = (*words, "--zeal")
        refused[f"{name} json"] = (*words, "--json", "nowhere/a.json") if name != "report" else (*words, "--json", "a")
        if "--model" in words:
            refused[f"{name} model"] = (*words, "--model", "./nowhere")
            refused[f"{name} task"] = (*words, "--task", "divination")
    for name in ("explain", "compare", "mix", "trust", "report"):
        refused[f"{name} text"] = (RUNS[name][0], "  ", *RUNS[name][2:])
        refused[f"{name} pair"] = (*RUNS[name], "--pair", "")
    for name in ("explain", "compare", "trust", "report"):
        refused[f"{name} suffix"] = (*RUNS[name], "--png", "a.svg")
    refused |= {f"{name} methods": (*RUNS[name], "--methods", "alti,alchemy") for name in WITH_METHODS}
    refused |= {f"{name} file": (*RUNS[name], "--file", "nowhere.csv") for name in WITH_FILES}
    refused |= {f"{name} column": (*RUNS[name], "--file", "films.csv", "--text-column", "tekst") for name in WITH_FILES}
    refused |= {f"{name} folder": (*RUNS[name], "--out", "model") for name in WITH_FOLDERS}
    return {**listed, **{name: (words, 2) for name, words in refused.items()}}


RUN_ALL = """
import contextlib, io, json, sys
from thalweg.cli.main import main
results = {}
for name, words in json.load(sys.stdin).items():
    sys.argv, err = ["thalweg", *words], io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    results[name] = {"code": code, "error": err.getvalue(), "heavy": [m for m in HEAVY if m in sys.modules]}
print(json.dumps(results))
"""


def answers(cases: dict[str, tuple[str, ...]], *paths: str) -> dict[str, dict[str, object]]:
    """Exit codes, errors and heavy imports of commands that run one after the other in a fresh process."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{RUN_ALL}"],
        input=json.dumps(cases),
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("folder")
def test_commands_when_they_refuse_list_or_help_then_import_nothing_heavy() -> None:
    table = cases()
    assert len(table) > 100
    results = answers({name: words for name, (words, _) in table.items()})
    for name, (_, code) in table.items():
        answer = results[name]
        assert (name, answer["code"], answer["heavy"]) == (name, code, [])
        error = str(answer["error"])
        assert error.count("\n") == (code == 2), error
        assert error.startswith("error: " if code else "")


def test_method_of_another_package_when_installed_then_is_checked_without_its_imports(tmp_path: Path) -> None:
    how_to.write_module(tmp_path)
    info = tmp_path / "strongest_head-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strongest-head\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[thalweg.methods]\nstrongest_head = strongest_head\n")
    words = ("explain", "the cat", "--method", how_to.NAME)
    results = answers({"value": (*words, "--residual", "x"), "name": (*words, "--residul", "1")}, str(tmp_path))
    assert [answer["heavy"] for answer in results.values()] == [[], []]
    assert "residual must be a number, got 'x'" in str(results["value"]["error"])
    assert "unknown option '--residul'; did you mean '--residual'?" in str(results["name"]["error"])


def test_methods_when_sketched_then_are_those_of_the_registry() -> None:
    code = (
        "from thalweg.cli.early import early\n"
        "def read(registry):\n"
        "    return {n: [m.summary, str(m.options), str(m.traits)] for n, m in registry.list_methods().items()}\n"
        "import json, sys; print(json.dumps([early('thalweg.methods.registry', read), 'torch' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    sketched, imported = json.loads(done.stdout)
    registered = {name: [m.summary, str(m.options), str(m.traits)] for name, m in list_methods().items()}
    for entry in (*sketched.values(), *registered.values()):
        entry[2] = "".join(sorted(entry[2]))  # sets are printed in any order
    assert sketched == registered
    assert not imported


def test_action_when_a_sketch_cannot_do_it_then_gets_the_module() -> None:
    code = (
        "import sys\nfrom thalweg.cli.early import early\n"
        "print(early('thalweg.numerics', lambda numerics: str(numerics.torch.float32)), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["torch.float32", "True"]


@pytest.mark.usefixtures("as_a_user")
def test_checks_when_the_value_cannot_be_used_then_raise() -> None:
    assert early("thalweg.models.tasks", lambda tasks: tasks.task_of("BertModel")) == "encoder"
    check_text("the cat", "a dog")
    check_model(None, "classification")
    with pytest.raises(tw.InputError, match="is empty"):
        check_text("the cat", " ")
    with pytest.raises(tw.ModelError, match="no folder"):
        check_model("./nowhere", None)
    with pytest.raises(tw.InputError, match="did you mean 'classification'"):
        check_model(None, "clasification")
