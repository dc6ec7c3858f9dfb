"""Atomic files: the old content or the new, never a half; tensors with a header."""

import os
import resource
import stat
from pathlib import Path

import pytest
import torch

import thalweg as tw
from thalweg.files.atomic import draft_of, read_header_of_tensors, read_tensors, write_tensors


def test_draft_when_complete_then_replaces_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with draft_of(file) as draft:
        Path(draft).write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_draft_when_writing_fails_then_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def write_half() -> None:
        with draft_of(file) as draft:
            Path(draft).write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"a.txt": "old"}


def test_draft_when_complete_then_has_the_permissions_of_an_ordinary_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with draft_of(tmp_path / "a.txt"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_tensors_when_written_then_are_read_back_with_their_header(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    matrix = torch.arange(6.0).reshape(2, 3)
    write_tensors(file, {"transposed": matrix.T, "shared": matrix}, {"epoch": 3})
    tensors, header = read_tensors(file, "a state")
    assert torch.equal(tensors["transposed"], matrix.T)
    assert header == read_header_of_tensors(file, "a state") == {"epoch": 3}


def test_draft_when_complete_then_content_and_folder_reach_the_disk_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(*paths: str | Path) -> None:
        steps.append("rename")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    with draft_of(tmp_path / "a.txt") as draft:
        Path(draft).write_text("new")
    assert steps == ["file", "rename", "folder"]


def test_tensors_when_the_disk_is_full_then_the_error_is_one_of_the_operating_system(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            write_tensors(tmp_path / "a.safetensors", {"x": torch.ones(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_tensors_when_foreign_or_truncated_then_the_error_names_file_and_content(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    file = tmp_path / "a.safetensors"
    save_file({"x": torch.ones(1)}, file)
    with pytest.raises(tw.InputError, match=r"a\.safetensors is not a state saved by Thalweg"):
        read_tensors(file, "a state")
    write_tensors(file, {"x": torch.ones(100)}, {})
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(tw.InputError, match=r"cannot read a state from .*a\.safetensors"):
        read_header_of_tensors(file, "a state")
