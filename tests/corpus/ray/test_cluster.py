"""The engine on Ray gives the rows of the local one, whatever happens to its processes."""

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
from tests.corpus.folders import sentences, timeless
from tests.tiny import save_folder, tiny_subject
from thalweg.corpus import run as running
from thalweg.corpus.run import run_corpus
from thalweg.corpus.storage import Folder

if find_spec("ray") is None:
    missing("ray is not installed: thalweg[ray]")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`use_:DeprecationWarning"),  # Ray's own, as it copies its settings
]
ASKED: dict[str, Any] = {"methods": ["attention_rollout", "alti"], "shard": 3, "certificate": None, "maps": True}
COMMAND = "from thalweg.cli.main import main; main()"
AHEAD = 3  # shards that are read for each worker before one comes back
DEADLY = "cabinet"  # a word that no sentence has


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray that the user has started."""
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
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find the tests
    yield ray
    ray.shutdown()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences(30)))
    return path


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same, digit for digit."""
    names = {file.name for file in one.iterdir()}
    assert names == {file.name for file in other.iterdir()}
    maps = [name for name in names if name.startswith("maps-")]
    return timeless(one) == timeless(other) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in maps
    )


def deadly(subject: tw.Subject, file: Path, flag: Path, always: bool = False) -> tw.Subject:
    """Have the model kill its process at a word, which goes into the fifth shard; never the process of the test."""
    lines = file.read_text().splitlines()
    lines[13] = f"the {DEADLY}"
    file.write_text("\n".join(lines))
    assert subject.tokenizer is not None
    word, home = subject.tokenizer.convert_tokens_to_ids(DEADLY), os.getpid()

    def hook(module: object, given: object, named: dict) -> None:
        del module, given
        if os.getpid() != home and (named["input_ids"] == word).any() and (always or not flag.exists()):
            with flag.open("a") as log:
                log.write("died\n")
            os.kill(os.getpid(), signal.SIGKILL)

    subject.model.register_forward_pre_hook(hook, with_kwargs=True)
    return subject


def test_ray_when_a_worker_is_killed_in_a_run_that_goes_on_then_rows_are_those_of_the_local_engine(
    cluster: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, out, whole = deadly(tiny_subject("bert"), file, tmp_path / "flag"), tmp_path / "out", tmp_path / "whole"
    run_corpus(subject, file, whole, **ASKED)
    run_corpus(subject, file, out, **ASKED)
    for number in set(range(10)) - {1, 7}:
        (out / f"shard-{number:06d}.parquet").unlink()
    under_way: list[int] = [0]
    real, add, context = running.shards, Folder.add, cluster.data.DataContext.get_current().copy()

    def counted(*arguments: Any) -> Iterator[Any]:
        for part in real(*arguments):
            under_way.append(under_way[-1] + (part.number not in (1, 7)))
            yield part

    def added(*arguments: Any) -> None:
        under_way.append(under_way[-1] - 1)
        add(*arguments)

    monkeypatch.setattr(running, "shards", counted)
    monkeypatch.setattr(Folder, "add", added)
    found = run_corpus(subject, file, out, **ASKED, engine="ray", workers=2)
    assert (tmp_path / "flag").read_text() == "died\n"
    assert (found.texts, found.found, found.complete, found.counts.failed) == (30, 6, True, 0)
    assert same(out, whole)
    assert max(under_way) <= 2 * AHEAD, "more shards were read than are worked on"
    assert cluster.is_initialized(), "what the user started is the user's to stop"
    assert cluster.data.DataContext.get_current() == context


def test_ray_when_a_shard_kills_every_worker_then_says_which_and_keeps_the_others(
    cluster: Any, file: Path, tmp_path: Path
) -> None:
    subject, out = deadly(tiny_subject("bert"), file, tmp_path / "flag", always=True), tmp_path / "out"
    with pytest.raises(tw.InputError, match=r"shard 4 \(lines 13 to 15 of the file\) died.*kept"):
        run_corpus(subject, file, out, **ASKED, engine="ray", workers=1)
    assert (tmp_path / "flag").read_text() == "died\n" * 2
    kept = {file.name for file in out.glob("shard-*")}
    assert {f"shard-{number:06d}.parquet" for number in range(4)} <= kept
    assert "shard-000004.parquet" not in kept
    end = time.monotonic() + 20
    while cluster.available_resources().get("CPU") != 2:
        assert time.monotonic() < end, "workers are still there"
        time.sleep(0.2)
    run_corpus(subject, file, out, **ASKED)
    run_corpus(subject, file, tmp_path / "whole", **ASKED)
    assert same(out, tmp_path / "whole")


def test_command_when_killed_on_ray_then_goes_on_and_is_silent_but_for_what_was_asked(
    file: Path, tmp_path: Path
) -> None:
    model, out = str(save_folder(tmp_path / "model")), tmp_path / "out"
    words = [sys.executable, "-c", COMMAND, "corpus", "--model", model, "--file", str(file), "--out", str(out)]
    words += ["--methods", "attention_rollout,alti", "--shard", "3", "--certificate", "", "--maps"]
    words += ["--engine", "ray", "--workers", "1", "--json", "-"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None and not list(out.glob("shard-*.parquet")):
            time.sleep(0.01)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["complete"]
    assert 3 <= found["found"] < 30
    run_corpus(tw.load(model), file, tmp_path / "whole", **ASKED)
    assert same(out, tmp_path / "whole")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"engine": "dask"}, "unknown engine 'dask'; expected one of local, ray"),
        ({"engine": "ray", "workers": 0}, "workers was given 0; expected 1 or more"),
        ({"workers": 2}, "the engine 'local' works in this process: choose 'ray'"),
    ],
)
def test_engine_when_it_cannot_be_had_then_says_why(file: Path, tmp_path: Path, asked: dict, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        run_corpus(tiny_subject("bert"), file, tmp_path / "out", **asked)


def test_engine_when_there_are_too_few_cores_then_says_so(cluster: Any, file: Path, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="workers was given 3, but Ray has 2 CPUs"):
        run_corpus(tiny_subject("bert"), file, tmp_path / "out", **ASKED, engine="ray", workers=3)


def test_engine_when_nothing_is_at_the_address_then_says_so_at_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(tw.InputError, match=r"there is no Ray at RAY_ADDRESS='127.0.0.1:1'"):
        run_corpus(tiny_subject("bert"), file, tmp_path / "out", **ASKED, engine="ray")


def test_engine_when_ray_is_missing_then_says_what_to_install(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "thalweg.corpus.ray.cluster", raising=False)
    monkeypatch.delitem(sys.modules, "thalweg.corpus.ray.feed", raising=False)
    with pytest.raises(tw.errors.MissingExtraError, match=r"install thalweg\[ray\]"):
        run_corpus(tiny_subject("bert"), file, tmp_path / "out", engine="ray")
