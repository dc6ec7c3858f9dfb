"""Attribution files: round trips, atomic writes, and refusal of other files."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import thalweg as tw
from tests.attribution.handmade import FIVE, SCORES, answer, assert_equal, attribution
from thalweg.tokens import anonymous


def strict_header(path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    with safe_open(str(path), framework="numpy") as file:
        return json.loads(file.metadata()["thalweg"], parse_constant=refuse)


def tampered(path: Path, header: object, **arrays: np.ndarray) -> Path:
    save_file(arrays, path, metadata={"thalweg": json.dumps(header)})
    return path


@pytest.mark.parametrize(
    "result",
    [
        attribution(),
        attribution(per_layer=np.stack([SCORES, SCORES.T]).astype(np.float32)),
        attribution(np.asfortranarray(SCORES)),
        attribution(SCORES.T),
        attribution(np.eye(2), anonymous(2), anonymous(2), answer=None),
        attribution(np.array([[0.1, 0.2, 0.3, 0.3, 0.1]]), FIVE.select((0,)), FIVE),
        attribution(answer=answer("\x1b[2J 😀 \u202e")),
    ],
    ids=["plain", "per_layer", "fortran", "transposed", "no_text", "special", "unicode"],
)
def test_file_when_read_back_then_is_equal(result: tw.Attribution, tmp_path: Path) -> None:
    path = tmp_path / "result.safetensors"
    result.save(path)
    assert_equal(tw.Attribution.load(path), result)
    assert_equal(tw.Attribution.load(str(path)), result)
    assert strict_header(path)["method"] == result.method
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.safetensors"]


def test_file_when_written_then_may_be_read_by_whom_other_files_may(tmp_path: Path) -> None:
    attribution().save(tmp_path / "saved")
    (tmp_path / "other").write_text("")
    assert os.stat(tmp_path / "saved").st_mode == os.stat(tmp_path / "other").st_mode


def test_save_when_it_fails_then_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "result"
    attribution().save(path)
    old = path.read_bytes()
    with pytest.raises(TypeError):
        attribution(params={"layer": object()}).save(path)
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["result"]


def test_save_when_the_place_is_a_folder_then_fails_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises((OSError, tw.InputError)):
        attribution().save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_save_when_a_file_is_there_then_replaces_it(tmp_path: Path) -> None:
    attribution().save(tmp_path / "result")
    other = attribution(np.eye(3), answer=answer("LABEL_2"))
    other.save(tmp_path / "result")
    assert_equal(tw.Attribution.load(tmp_path / "result"), other)


def test_load_when_the_file_is_not_ours_then_is_refused(tmp_path: Path) -> None:
    good = tmp_path / "good"
    attribution().save(good)
    header, scores = strict_header(good), load_file(good)["scores"]
    text, cut, empty, foreign = (tmp_path / n for n in ("text", "cut", "empty", "foreign"))
    text.write_text("nothing of the kind " * 50)
    cut.write_bytes(good.read_bytes()[:-20])
    empty.write_bytes(b"")
    save_file({"scores": scores}, foreign)
    files = {
        "missing": tmp_path / "missing",
        "folder": tmp_path,
        "text": text,
        "cut": cut,
        "empty": empty,
        "foreign": foreign,
        "another_version": tampered(tmp_path / "version", {**header, "schema": 99}, scores=scores),
        "header_is_a_list": tampered(tmp_path / "list", [], scores=scores),
        "header_is_half": tampered(tmp_path / "half", {"schema": 1}, scores=scores),
        "no_scores": tampered(tmp_path / "none", header, other=scores),
        "scores_of_another_shape": tampered(tmp_path / "shape", header, scores=scores[:, :2]),
    }
    raw = {}
    for name, path in files.items():
        try:
            tw.Attribution.load(path)
        except tw.InputError as error:
            assert str(path) in str(error)  # noqa: PT017
        except Exception as error:  # noqa: BLE001
            raw[name] = repr(error)
        else:
            raw[name] = "was read"
    assert raw == {}


def test_to_dict_when_a_figure_is_not_a_number_then_is_still_json(tmp_path: Path) -> None:
    result = attribution(figures={"ratio": float("nan")})
    json.dumps(result.to_dict(), allow_nan=False)
    result.save(tmp_path / "a")
    strict_header(tmp_path / "a")


def test_error_bars_when_there_are_some_then_go_where_the_scores_go(tmp_path: Path) -> None:
    bars = np.full_like(SCORES, 0.01)
    result = attribution(errors=bars)
    result.save(tmp_path / "saved")
    assert_equal(tw.Attribution.load(tmp_path / "saved"), result)
    assert result.to_dict()["errors"] == bars.tolist()
    assert result.select([0]).errors is not None
    halved = attribution(scores=2 * SCORES, errors=bars).renormalised()
    assert halved.errors is not None
    assert halved.errors.max() < 0.01
    assert attribution().errors is None
