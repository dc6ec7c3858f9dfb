"""Model folders and files for the commands."""

import shutil
from pathlib import Path

import pytest

import thalweg as tw
from tests.cli.everything import write_files
from tests.tiny import save_folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the commands of `tests/cli/everything.py` read."""
    folder = tmp_path_factory.mktemp("filled")
    save_folder(folder / "model")
    write_files(folder)
    tw.run_corpus(tw.load(folder / "model"), folder / "texts.txt", folder / "finished", ["alti"])
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, as the working directory."""
    copy = tmp_path / "here"
    shutil.copytree(filled, copy)
    monkeypatch.chdir(copy)
    return copy
