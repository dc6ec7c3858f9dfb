"""Run folders: identity, lock, resume, refusals, and the leftovers of a killed writer."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import thalweg as tw
from thalweg.errors import DamagedFileWarning
from thalweg.files import atomic
from thalweg.files.run_folder import DIGESTS, HEADER, LOCK, RunKind, check_intact, open_run, read_header

KIND = RunKind("bench", 3)
IDENTITY = {"weights": "abc", "methods": ["alti"], "seed": 0}
PROVENANCE = {"model": "m"}


def start(path: Path, **changes: object) -> None:
    """A run that writes one file."""
    with open_run(path, KIND, {**IDENTITY, **changes}, PROVENANCE) as folder:
        folder.write_json("first.json", 1)


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


@pytest.mark.parametrize("name", [None, "thalweg", "transformers", "torch"])
def test_run_when_a_version_in_its_provenance_differs_then_is_refused(tmp_path: Path, name: str | None) -> None:
    versions = {"thalweg": "1", "transformers": "2", "torch": "3"}
    with open_run(tmp_path, KIND, IDENTITY, versions) as folder:
        folder.write_json("first.json", 1)
    changed = {**versions, "model": "elsewhere"} if name is None else {**versions, name: "99"}
    if name is None:
        with open_run(tmp_path, KIND, IDENTITY, changed) as folder:
            assert folder.header.provenance == versions, "results report where they came from"
        return
    with (
        pytest.raises(tw.InputError, match=rf"different {name} \('.' there, '99' here\)"),
        open_run(tmp_path, KIND, IDENTITY, changed),
    ):
        pass


def test_run_when_it_wrote_nothing_then_does_not_block_another_run_of_any_kind(tmp_path: Path) -> None:
    for kind, seed in ((KIND, 0), (KIND, 1), (RunKind("corpus", 9), 1)):
        with open_run(tmp_path, kind, {**IDENTITY, "seed": seed}, PROVENANCE):
            (tmp_path / "shard-0x.draft").write_text("half")  # as a killed run leaves it
        assert read_header(tmp_path, kind).identity["seed"] == seed
    assert not (tmp_path / "first.json").exists()


@pytest.mark.parametrize("content", ["{}", "[]", '{"name": "my run"}', "not json"])
@pytest.mark.parametrize("name", [HEADER, DIGESTS])
def test_folder_when_a_file_of_another_program_has_the_name_of_ours_then_is_refused_untouched(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(tw.InputError):
        start(tmp_path)
    assert contents(tmp_path) == {name: content.encode()}


def flip_bit(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def test_file_when_any_bit_is_flipped_then_is_reported_and_not_read(tmp_path: Path) -> None:
    with open_run(tmp_path, KIND, IDENTITY, PROVENANCE) as folder:
        folder.write_tensors("a.safetensors", {"x": torch.ones(9)}, {"epoch": 3})
        file = tmp_path / "a.safetensors"
        for bit in range(0, 8 * file.stat().st_size, 7):
            flip_bit(file, bit)
            with pytest.warns(DamagedFileWarning, match=r"a\.safetensors is damaged.*computed again"):
                assert folder.read_tensors("a.safetensors") is None
            with pytest.raises(tw.InputError, match="damaged"):
                check_intact(tmp_path, ["a.safetensors"])
            flip_bit(file, bit)
        assert folder.read_tensors("a.safetensors") is not None


def test_header_when_any_bit_is_flipped_then_the_run_is_refused_or_unchanged(tmp_path: Path) -> None:
    start(tmp_path)
    header, stored = tmp_path / HEADER, read_header(tmp_path, KIND)
    for bit in range(8 * header.stat().st_size):
        flip_bit(header, bit)
        with suppress(tw.InputError):
            assert read_header(tmp_path, KIND) == stored  # white space
        flip_bit(header, bit)


def test_digests_when_any_bit_is_flipped_then_at_worst_a_file_is_computed_again(tmp_path: Path) -> None:
    start(tmp_path)
    digests = tmp_path / DIGESTS
    intact = digests.read_bytes()
    for bit in range(8 * len(intact)):
        flip_bit(digests, bit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedFileWarning)
            with open_run(tmp_path, KIND, IDENTITY, PROVENANCE) as folder:
                if not folder.intact("first.json"):
                    folder.write_json("first.json", 1)
        check_intact(tmp_path, ["first.json"])
        digests.write_bytes(intact)


def test_digests_when_a_write_was_torn_then_later_files_are_intact(tmp_path: Path) -> None:
    start(tmp_path)
    with (tmp_path / DIGESTS).open("ab") as digests:
        digests.write(b"0123")
    with open_run(tmp_path, KIND, IDENTITY, PROVENANCE) as folder:
        folder.write_json("second.json", 2)
        assert folder.intact("first.json", "second.json", "third.json") == {"first.json", "second.json"}


def test_files_when_written_together_then_appear_with_their_subfolders_or_not_at_all(tmp_path: Path) -> None:
    with open_run(tmp_path, KIND, IDENTITY, PROVENANCE) as folder:
        with suppress(KeyboardInterrupt), folder.draft_files() as drafts:
            (drafts / "a.json").write_text("1")
            raise KeyboardInterrupt
        assert {file.name for file in tmp_path.iterdir()} == {HEADER, LOCK, DIGESTS}
        with folder.draft_files() as drafts:
            (drafts / "a.json").write_text("1")
            (drafts / "more").mkdir()
            (drafts / "more" / "b.json").write_text("2")
        assert folder.intact("a.json", "more/b.json") == {"a.json", "more/b.json"}
    assert {file.name for file in tmp_path.iterdir()} == {HEADER, LOCK, DIGESTS, "a.json", "more"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_run_when_interrupted_then_the_exception_says_how_to_resume(tmp_path: Path, stop: type[BaseException]) -> None:
    with pytest.raises(stop) as raised, open_run(tmp_path, KIND, IDENTITY, PROVENANCE):
        raise stop
    assert raised.value.__notes__ == ["run the same command again to resume"]


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
    assert {file.name for file in tmp_path.iterdir()} == {HEADER, LOCK, DIGESTS, "first.json"}


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
