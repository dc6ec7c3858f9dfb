"""Whole runs: identity, lock and resume, and options that cannot work."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch

import thalweg as tw
from tests.tiny import byte_level, tiny_subject, wordpiece
from thalweg.errors import MissingExtraError
from thalweg.faithfulness import evaluation, rankers
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.result import Bench

ROOT = Path(__file__).parents[2]
TEXTS = ["the old dog runs", "a new cat is good", "the keys are on the table", "this film is bad", "the story is old"]
METHODS = ["alti", "gradient_norm", "random"]
METRICS = ["comprehensiveness", "sufficiency_mask", "naopc"]
FINISHED = ["digests.txt", "rows.parquet", "run.json", "run.lock"]


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


def timeless(rows: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def on_example(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], None]], None]:
    """Call a function with the number of every example before it is captured."""

    def install(before: Callable[[int], None]) -> None:
        original = evaluation.make_case

        def make_case(*arguments: Any, **named: Any) -> Any:
            before(arguments[2])
            return original(*arguments, **named)

        monkeypatch.setattr(evaluation, "make_case", make_case)

    return install


def test_run_when_interrupted_and_resumed_then_equals_an_uninterrupted_one(
    subject: tw.Subject, tmp_path: Path, on_example: Callable[[Callable[[int], None]], None]
) -> None:
    complete = bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "complete")
    numbers: list[int] = []

    def interrupt(number: int) -> None:
        numbers.append(number)
        if len(numbers) == 3:
            raise KeyboardInterrupt

    on_example(interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "cut")
    assert len(list((tmp_path / "cut").glob("rows-*.parquet"))) == 2
    assert Bench.load(tmp_path / "cut").examples == 2
    resumed = bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "cut")
    assert numbers == [0, 1, 2, 2, 3, 4]
    assert timeless(resumed.rows) == timeless(complete.rows)
    assert resumed.to_dict() | {"folder": None} == complete.to_dict() | {"folder": None}
    assert Bench.load(tmp_path / "cut").to_dict() == resumed.to_dict()
    assert names_in(tmp_path / "cut") == FINISHED
    repeated = bench(subject, TEXTS, METHODS, METRICS, folder=tmp_path / "cut")
    assert numbers == [0, 1, 2, 2, 3, 4]
    assert timeless(repeated.rows) == timeless(complete.rows)


def test_run_when_read_while_it_is_being_written_then_has_the_rows_so_far(
    subject: tw.Subject, tmp_path: Path, on_example: Callable[[Callable[[int], None]], None]
) -> None:
    examples: list[int] = []
    on_example(lambda number: examples.append(Bench.load(tmp_path).examples))
    finished = bench(subject, TEXTS[:3], ["random"], ["aopc"], folder=tmp_path)
    assert examples == [0, 1, 2]
    assert Bench.load(tmp_path).to_dict() == finished.to_dict()


def test_run_when_kept_in_memory_then_equals_one_in_a_folder(subject: tw.Subject, tmp_path: Path) -> None:
    in_memory = bench(subject, TEXTS[:2], METHODS, METRICS)
    in_folder = bench(subject, TEXTS[:2], METHODS, METRICS, folder=tmp_path)
    assert in_memory.to_dict() == in_folder.to_dict() | {"folder": None}
    assert timeless(in_memory.rows) == timeless(in_folder.rows)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, r"different seed \(0 there, 1 here\)"),
        ({"examples": TEXTS[:3]}, "different examples"),
        ({"examples": [TEXTS[0], BenchExample(TEXTS[1], cue=((0, 1),))]}, "different examples"),
        ({"methods": ["random", "alti"]}, "different methods"),
        ({"methods": ["random", "occlusion:window=1"]}, "different methods"),
        ({"metrics": ["aopc_mask"]}, "different metrics"),
        ({"max_tokens": 9}, r"different max_tokens \(None there, 9 here\)"),
        ({"other_seeds": [tiny_subject("bert")]}, "different other_seeds"),
    ],
)
def test_folder_when_an_option_differs_then_is_refused_untouched(
    subject: tw.Subject, tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    options: dict[str, Any] = {"examples": TEXTS[:2], "methods": ["random"], "metrics": ["aopc"], "folder": tmp_path}
    bench(subject, **options)
    before = contents(tmp_path)
    with pytest.raises(tw.InputError, match=named):
        bench(subject, **{**options, **changes})
    assert contents(tmp_path) == before


def other_config(subject: tw.Subject) -> tw.Subject:
    other = tiny_subject("bert")
    other.model.config.layer_norm_eps = 0.5  # pyright: ignore[reportAttributeAccessIssue]
    return other


def other_weights(subject: tw.Subject) -> tw.Subject:
    other = tiny_subject("bert")
    with torch.no_grad():
        next(iter(other.model.parameters())).add_(1e-3)
    return other


@pytest.mark.parametrize(
    ("change", "differs", "same"),
    [
        (other_config, "config", ("weights", "tokenizer")),
        (lambda subject: replace(subject, tokenizer=byte_level()), "tokenizer", ("weights", "config")),
        (other_weights, "weights", ("config", "tokenizer")),
        (lambda subject: tw.load(tiny_subject("bert").model.double(), wordpiece()), "dtype", ("tokenizer",)),
    ],
)
def test_folder_when_the_model_differs_then_is_refused_with_the_part_that_does(
    subject: tw.Subject,
    tmp_path: Path,
    change: Callable[[tw.Subject], tw.Subject],
    differs: str,
    same: tuple[str, ...],
) -> None:
    bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    before = contents(tmp_path)
    with pytest.raises(tw.InputError, match=rf"\b{differs} \(") as error:
        bench(change(subject), TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    assert not any(f"{name} (" in str(error.value) for name in same)
    assert contents(tmp_path) == before


def test_folder_when_named_automatically_then_depends_on_the_identity(
    subject: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, repeated, reseeded = (
        bench(subject, TEXTS[:1], ["random"], ["aopc"], seed=seed, folder="auto").folder for seed in (0, 0, 1)
    )
    assert first == repeated != reseeded
    assert set(names_in(tmp_path)) == {first, reseeded}


def test_folder_when_it_holds_other_files_then_is_refused(subject: tw.Subject, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(tw.InputError, match=r"notes\.txt"):
        bench(subject, TEXTS[:2], ["random"], ["aopc"], folder=tmp_path)
    assert names_in(tmp_path) == ["notes.txt"]


WRITER = """
import sys, time
from tests.tiny import tiny_subject
from thalweg.faithfulness import evaluation, rankers
from thalweg.faithfulness.bench import bench

def wait(*arguments, **named):
    print("running", flush=True)
    time.sleep(60)

evaluation.make_case = wait
bench(tiny_subject("bert"), ["the old dog runs"], ["random"], ["aopc"], folder=sys.argv[1])
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}


def test_folder_when_another_process_runs_in_it_then_is_refused_and_free_after_its_kill(
    subject: tw.Subject, tmp_path: Path
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "running\n"
            with pytest.raises(tw.InputError, match="another process is writing"):
                bench(subject, TEXTS[:1], ["random"], ["aopc"], folder=tmp_path)
            assert Bench.load(tmp_path).examples == 0
        finally:
            writer.kill()
    assert bench(subject, TEXTS[:1], ["random"], ["aopc"], folder=tmp_path).examples == 1


KILLED = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from tests.tiny import tiny_subject
from thalweg.faithfulness.bench import bench

folder = sys.argv[1]
texts = ["the key is the key", "the keys to the", "a cat and the dog", "the old key", "dog and the cat is"]

def run(path):  # a new model each time, whose wiring has to be learnt again
    subject, seed = tiny_subject("gpt2"), tiny_subject("gpt2")
    methods = ["alti", "gradient_norm", "integrated_gradients:steps=3", "leave_one_out", "value_zeroing", "random"]
    metrics = ["aopc", "naopc_pad", "gradient_agreement", "randomisation", "seed_robustness"]
    return bench(subject, texts, methods, metrics, other_seeds=[seed], folder=path, inverses=True)

start = time.monotonic()
run(f"{folder}/complete")
duration = time.monotonic() - start
generator, cut = random.Random(int(sys.argv[2])), 0
for _ in range(6):
    child = os.fork()
    if child == 0:
        run(f"{folder}/cut")
        os._exit(0)
    time.sleep(generator.uniform(0.1, 0.6) * duration)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    cut += not os.path.exists(f"{folder}/cut/rows.parquet")
run(f"{folder}/cut")
print(cut)
"""


def test_run_when_killed_at_any_moment_then_ends_with_the_same_rows_in_the_same_order(tmp_path: Path) -> None:
    """Passes are compared too: learning the wiring again after a kill must not count."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path), "5"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= 1, "no kill came before the end"
    complete, cut = (parquet.read_table(tmp_path / name / "rows.parquet").to_pylist() for name in ("complete", "cut"))
    assert len(complete) == 5 * 12
    assert timeless(cut) == timeless(complete)
    assert not any(row["error"] for row in complete)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": []}, "at least one method"),
        ({"metrics": ["beauty"]}, "unknown metric 'beauty'"),
        ({"metrics": []}, "at least one metric"),
        ({"operator": "burn"}, "delete, mask or pad, got 'burn'"),
        ({"examples": []}, "at least one text"),
        ({"examples": "the old dog"}, "got one text: 'the old dog'"),
        ({"examples": [("a", "pair")]}, r"got tuple.*text pairs are not supported"),
        ({"examples": [7]}, "got int: '7'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"metrics": ["seed_robustness"]}, r"seed_robustness .* pass other_seeds \(--other-seeds\)"),
    ],
)
def test_bench_when_an_option_is_invalid_then_the_error_has_its_value(
    subject: tw.Subject, as_a_user: None, changes: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {"examples": TEXTS, "methods": ["random"], "metrics": ["aopc"], **changes}
    with pytest.raises(tw.InputError, match=message):
        bench(subject, **options)


def test_model_when_it_has_no_single_answer_then_is_refused_before_anything_runs(
    subject: tw.Subject, tmp_path: Path
) -> None:
    with pytest.raises(tw.InputError, match="supports classifiers"):
        bench(tiny_subject("t5"), TEXTS[:1], ["random"], ["aopc"], folder=tmp_path / "run")
    with pytest.raises(tw.InputError, match="has no tokenizer"):
        bench(replace(subject, tokenizer=None), TEXTS[:1], ["random"], ["aopc"], folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bench_when_an_extra_is_missing_then_raises_and_keeps_no_row(
    subject: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row with that error would still be there once the extra is installed."""

    def needy(*_: Any) -> Any:
        raise MissingExtraError("needy needs an extra")

    monkeypatch.setattr(rankers, "explain", needy)
    with pytest.raises(MissingExtraError, match="needy"):
        bench(subject, TEXTS, ["alti"], ["aopc"], folder=tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.parquet"))


@pytest.mark.parametrize(
    ("family", "text"),
    [("bert", "the old dog"), ("roberta", "the old dog"), ("gpt2", "the key"), ("electra", "the old [MASK] is")],
)
def test_all_when_requested_then_every_method_and_random_runs(family: str, text: str) -> None:
    result = bench(tiny_subject(family), [text], ["all"], ["comprehensiveness", "gradient_agreement", "randomisation"])
    assert len(result.methods) == len(tw.list_methods()) + 1
    assert result.failures == {}


def test_page_when_its_python_is_run_then_works() -> None:
    page = (ROOT / "docs" / "faithfulness.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "faithfulness.md", "exec"), {})
