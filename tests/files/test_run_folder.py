"""Run folders: identity, lock, resume, refusals, and the leftovers of a killed writer."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import thalweg as tw
from thalweg.files import atomic
from thalweg.files.run_folder import HEADER, LOCK, RunKind, open_run, read_header

KIND = RunKind("bench", 3)
IDENTITY = {"weights": "abc", "methods": ["alti"], "seed": 0}
PROVENANCE = {"model": "m"}


def start(path: Path, **changes: object) -> None:
    with open_run(path, KIND, {**IDENTITY, **changes}, PROVENANCE):
        pass


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_run_when_started_then_writes_a_header_that_can_be_read_back(tmp_path: Path) -> None:
    start(tmp_path / "new" / "run")
    header = read_header(tmp_path / "new" / "run", KIND)
    assert header.identity == {**IDENTITY, "schema": 3, "thalweg": tw.__version__}
    assert header.provenance == PROVENANCE


def test_run_when_everything_is_the_same_then_resumes_with_its_files(tmp_path: Path) -> None:
    with open_run(tmp_path, KIND, IDENTITY, PROVENANCE) as folder:
        folder.write_json("rows.json", [1, 2])
        folder.write_tensors("state.safetensors", {"a": torch.ones(2)}, {"epoch": 3})
        assert folder.read_tensors("other.safetensors") is None
    with open_run(tmp_path, KIND, IDENTITY, {"model": "elsewhere"}) as folder:
        assert json.loads((tmp_path / "rows.json").read_text()) == [1, 2]
        state = folder.read_tensors("state.safetensors")
        assert state is not None
        assert state[1]["epoch"] == 3
        folder.remove("rows.json", "never.json")
    assert not (tmp_path / "rows.json").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, r"seed \(0 there, 1 here\)"),
        ({"weights": "xyz"}, "weights"),
        ({"methods": ["alti", "raw_attention"]}, "methods"),
        ({"extra": True}, r"extra \(None there, True here\)"),
    ],
)
def test_run_when_its_identity_differs_then_is_refused_untouched(
    tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    start(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(tw.InputError, match=named):
        start(tmp_path, **changes)
    assert contents(tmp_path) == before


def test_run_when_the_version_differs_then_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path)
    monkeypatch.setattr("thalweg.files.run_folder.__version__", "99.0")
    with pytest.raises(tw.InputError, match=r"thalweg .*99\.0"):
        start(tmp_path)


def test_run_when_of_another_kind_or_schema_then_is_refused(tmp_path: Path) -> None:
    start(tmp_path)
    with (
        pytest.raises(tw.InputError, match="bench run, expected a corpus run"),
        open_run(tmp_path, RunKind("corpus", 3), IDENTITY, PROVENANCE),
    ):
        pass
    with pytest.raises(tw.InputError, match=r"schema 3, expected 4"):
        read_header(tmp_path, RunKind("bench", 4))


def test_header_when_modified_then_is_refused(tmp_path: Path) -> None:
    start(tmp_path)
    header = json.loads((tmp_path / HEADER).read_text())
    header["identity"]["seed"] = 7
    (tmp_path / HEADER).write_text(json.dumps(header))
    with pytest.raises(tw.InputError, match="modified"):
        start(tmp_path, seed=7)
    (tmp_path / HEADER).write_text("{")
    with pytest.raises(tw.InputError, match="cannot read"):
        start(tmp_path)


def test_folder_when_it_holds_foreign_files_then_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(tw.InputError, match=r"thesis\.txt"):
        start(tmp_path)
    assert contents(tmp_path) == {"thesis.txt": b"mine"}
    with pytest.raises(tw.InputError, match="is a file"):
        start(tmp_path / "thesis.txt")
    with pytest.raises(tw.InputError, match=r"cannot create the folder .*thesis\.txt/run: Not a directory"):
        start(tmp_path / "thesis.txt" / "run")
    with pytest.raises(tw.InputError, match="not the folder of a bench run"):
        read_header(tmp_path, KIND)


def test_tensors_when_they_belong_to_another_run_then_are_refused(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        with open_run(tmp_path / name, KIND, {**IDENTITY, "seed": seed}, PROVENANCE) as folder:
            folder.write_tensors("state.safetensors", {"x": torch.ones(1)}, {})
    os.replace(tmp_path / "a" / "state.safetensors", tmp_path / "b" / "state.safetensors")
    resumed = open_run(tmp_path / "b", KIND, {**IDENTITY, "seed": 1}, PROVENANCE)
    with resumed as folder, pytest.raises(tw.InputError, match="another run"):
        folder.read_tensors("state.safetensors")


WRITER = """
import sys, time
from pathlib import Path
from thalweg.files.run_folder import RunKind, open_run
with open_run(Path(sys.argv[1]), RunKind("bench", 3), {"weights": "abc", "methods": ["alti"], "seed": 0}, {}) as folder:
    with folder.draft("rows.json") as draft:
        draft.write_text("half")
        print("writing", flush=True)
        time.sleep(60)
"""


def test_folder_when_another_process_writes_then_is_refused_and_free_after_its_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            with pytest.raises(tw.InputError, match="another process"):
                start(tmp_path)
        finally:
            writer.send_signal(signal.SIGKILL)
    assert list(tmp_path.glob("*.draft"))
    start(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {HEADER, LOCK}


def test_write_when_the_disk_is_full_then_the_error_explains_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_run(tmp_path, KIND, IDENTITY, PROVENANCE) as folder:
        folder.write_json("first.json", 1)
        monkeypatch.setattr(atomic.os, "replace", full)
        with pytest.raises(tw.InputError, match=r"No space left.*resumes"):
            folder.write_json("second.json", 2)
    assert json.loads((tmp_path / "first.json").read_text()) == 1
    assert not list(tmp_path.glob("*.draft"))
