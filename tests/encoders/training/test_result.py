"""The result of a training run: as JSON, and read back from its folder."""

import json
import shutil
from pathlib import Path

import pytest

import thalweg as tw
from thalweg.encoders.training.result import KIND, RESULT, Training


def test_result_when_written_as_json_then_is_plain_and_can_be_read_back(trained: Training) -> None:
    assert json.loads(json.dumps(trained.to_dict())) == trained.to_dict()
    assert Training.load(trained.folder) == trained


def test_result_when_copied_alone_then_can_be_read(trained: Training, tmp_path: Path) -> None:
    shutil.copy(Path(trained.folder) / RESULT, tmp_path)
    copied = Training.load(tmp_path)
    assert copied.figures == trained.figures
    assert copied.folder == str(tmp_path)


def test_result_when_damaged_then_is_refused(trained: Training, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "run")
    file = tmp_path / "run" / RESULT
    file.write_text(file.read_text().replace('"best_epoch": ', '"best_epoch": 1'))
    with pytest.raises(tw.InputError, match=r"training\.json is damaged"):
        Training.load(tmp_path / "run")


def test_result_when_missing_or_unreadable_then_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match=r"no finished training run.*training\.json"):
        Training.load(tmp_path)
    for content, fact in (
        ("{", "that can be read: JSONDecodeError"),
        ("[]", "schema None, expected 4"),
        ('{"schema": 99}', "schema 99, expected 4"),
        (json.dumps({"schema": KIND.schema, "configuration": {}}), "figures is missing"),
    ):
        (tmp_path / RESULT).write_text(content)
        with pytest.raises(tw.InputError, match=fact) as refusal:
            Training.load(tmp_path)
        assert RESULT in str(refusal.value)
