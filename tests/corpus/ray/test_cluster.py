"""The engine on Ray gives the rows of the local engine, whatever happens to its processes."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.conftest import missing
from tests.corpus.folders import sentences, untimed_rows
from tests.tiny import save_folder, tiny_subject
from thalweg.corpus import run as run_module
from thalweg.corpus.run import run_corpus
from thalweg.corpus.shard_store import ShardStore

if find_spec("ray") is None:
    missing("ray is not installed: thalweg[ray]")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`use_:DeprecationWarning"),  # raised by Ray when it copies its settings
]
OPTIONS: dict[str, Any] = {"methods": ["attention_rollout", "alti"], "shard": 3, "certificate": None, "maps": True}
COMMAND = "from thalweg.cli.main import main; main()"
SHARDS_PER_WORKER = 3  # read before the first result comes back
DEADLY = "cabinet"  # not a word of `sentences`


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray session that the user has started."""
    import ray
    from ray import cloudpickle

    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _system_config={"worker_niceness": 0},
    )
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    yield ray
    ray.shutdown()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences(30)))
    return path


def same(folder: Path, other: Path) -> bool:
    """Whether two folders hold the same rows and maps, digit for digit."""
    names = {file.name for file in folder.iterdir()}
    assert names == {file.name for file in other.iterdir()}
    maps = [name for name in names if name.startswith("maps-")]
    return untimed_rows(folder) == untimed_rows(other) and all(
        (folder / name).read_bytes() == (other / name).read_bytes() for name in maps
    )


def deadly(subject: tw.Subject, file: Path, flag: Path, always: bool = False) -> tw.Subject:
    """A model that kills its process at a word in the fifth shard, except in the process of the test."""
    lines = file.read_text().splitlines()
    lines[13] = f"the {DEADLY}"
    file.write_text("\n".join(lines))
    assert subject.tokenizer is not None
    word, home = subject.tokenizer.convert_tokens_to_ids(DEADLY), os.getpid()

    def hook(module: object, arguments: object, keywords: dict) -> None:
        del module, arguments
        if os.getpid() != home and (keywords["input_ids"] == word).any() and (always or not flag.exists()):
            with flag.open("a") as log:
                log.write("died\n")
            os.kill(os.getpid(), signal.SIGKILL)

    subject.model.register_forward_pre_hook(hook, with_kwargs=True)
    return subject


def test_ray_when_a_worker_dies_in_a_resumed_run_then_rows_are_those_of_the_local_engine(
    cluster: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, out, whole = deadly(tiny_subject("bert"), file, tmp_path / "flag"), tmp_path / "out", tmp_path / "whole"
    run_corpus(subject, file, whole, **OPTIONS)
    run_corpus(subject, file, out, **OPTIONS)
    for number in set(range(10)) - {1, 7}:
        (out / f"shard-{number:06d}.parquet").unlink()
    in_flight: list[int] = [0]
    split, add, context = run_module.split_shards, ShardStore.add, cluster.data.DataContext.get_current().copy()

    def counted(*arguments: Any) -> Iterator[Any]:
        for shard in split(*arguments):
            in_flight.append(in_flight[-1] + (shard.number not in (1, 7)))
            yield shard

    def added(*arguments: Any) -> None:
        in_flight.append(in_flight[-1] - 1)
        add(*arguments)

    monkeypatch.setattr(run_module, "split_shards", counted)
    monkeypatch.setattr(ShardStore, "add", added)
    corpus = run_corpus(subject, file, out, **OPTIONS, engine="ray", workers=2)
    assert (tmp_path / "flag").read_text() == "died\n"
    assert (corpus.texts, corpus.resumed, corpus.complete, corpus.counts.failed) == (30, 6, True, 0)
    assert same(out, whole)
    assert max(in_flight) <= 2 * SHARDS_PER_WORKER, "shards were read too early"
    assert cluster.is_initialized(), "the run must not stop the user's session"
    assert cluster.data.DataContext.get_current() == context


def test_ray_when_a_shard_kills_every_worker_then_names_it_and_keeps_the_others(
    cluster: Any, file: Path, tmp_path: Path
) -> None:
    subject, out = deadly(tiny_subject("bert"), file, tmp_path / "flag", always=True), tmp_path / "out"
    with pytest.raises(tw.InputError, match=r"shard 4 \(lines 13 to 15 of the file\) killed 2 workers.*kept"):
        run_corpus(subject, file, out, **OPTIONS, engine="ray", workers=1)
    assert (tmp_path / "flag").read_text() == "died\n" * 2
    kept = {file.name for file in out.glob("shard-*")}
    assert {f"shard-{number:06d}.parquet" for number in range(4)} <= kept
    assert "shard-000004.parquet" not in kept
    end = time.monotonic() + 20
    while cluster.available_resources().get("CPU") != 2:
        assert time.monotonic() < end, "workers are still running"
        time.sleep(0.2)
    run_corpus(subject, file, out, **OPTIONS)
    run_corpus(subject, file, tmp_path / "whole", **OPTIONS)
    assert same(out, tmp_path / "whole")


def test_command_when_killed_on_ray_then_resumes_and_prints_only_its_result(file: Path, tmp_path: Path) -> None:
    model, out = str(save_folder(tmp_path / "model")), tmp_path / "out"
    command = [sys.executable, "-c", COMMAND, "corpus", "--model", model, "--file", str(file), "--out", str(out)]
    command += ["--methods", "attention_rollout,alti", "--shard", "3", "--certificate", "", "--maps"]
    command += ["--engine", "ray", "--workers", "1", "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None and not list(out.glob("shard-*.parquet")):
            time.sleep(0.01)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    corpus = json.loads(process.stdout)
    assert corpus["complete"]
    assert 3 <= corpus["resumed"] < 30
    run_corpus(tw.load(model), file, tmp_path / "whole", **OPTIONS)
    assert same(out, tmp_path / "whole")


def test_engine_when_there_are_too_few_cores_then_gives_their_number(cluster: Any, file: Path, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="workers must be at most 2, the number of CPUs that Ray has, got 3"):
        run_corpus(tiny_subject("bert"), file, tmp_path / "out", **OPTIONS, engine="ray", workers=3)
