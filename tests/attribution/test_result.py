"""Results: what can be done with one, and that a file gives back what was put in."""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import thalweg as tw
from tests.test_tokens import tokens
from thalweg.methods.registry import list_methods
from thalweg.receipt import Check
from thalweg.tokens import Tokens, anonymous

TEXT = "unhappy film"
THREE = tokens(TEXT, [(0, 2), (2, 7), (8, 12)], [0, 0, 1])  # un happy | film
FIVE = tokens(TEXT, [None, (0, 2), (2, 7), (8, 12), None], [None, 0, 0, 1, None])
SCORES = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.2, 0.2, 0.6]])


def attribution(
    scores: np.ndarray = SCORES,
    targets: Tokens = THREE,
    sources: Tokens = THREE,
    figures: dict[str, float] | None = None,
    **rest: Any,
) -> tw.Attribution:
    given: dict[str, Any] = {
        "method": "raw_attention",
        "params": {"layer": -1, "head": None},
        "receipt": tw.Receipt(
            checks={"parity": Check((1e-7, 2e-7), 2e-5), "sum_of_parts": Check((3e-7,), 1e-5)},
            figures=figures or {"share": 0.25},
            assumed=("nothing", "much"),
        ),
        "provenance": {"model": "tiny", "torch": "2"},
        "prediction": "LABEL_1",
    }
    return tw.Attribution(scores=scores, targets=targets, sources=sources, **{**given, **rest})


def assert_equal(found: tw.Attribution, expected: tw.Attribution) -> None:
    for field in dataclasses.fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other
            assert type(one) is type(other)


# --- words ---------------------------------------------------------------------------------------


def test_words_when_merged_then_sources_are_summed_and_targets_averaged() -> None:
    found = attribution().words()
    np.testing.assert_allclose(found.scores, [[0.6, 0.4], [0.4, 0.6]])
    assert found.targets.pieces == found.sources.pieces == ("unhappy", "film")
    assert found.sources.spans == ((0, 7), (8, 12))
    assert found.sources.ids == (None, 2)


def test_words_when_rows_have_any_sum_then_keep_it() -> None:
    scores = np.array([[1.0, -3.0, 0.5], [2.0, 2.0, 2.0], [0.0, 0.0, -1.0]])
    found = attribution(scores).words()
    np.testing.assert_allclose(found.scores.sum(1), [(-1.5 + 6) / 2, -1])


def test_words_when_one_target_was_asked_for_then_only_sources_are_merged() -> None:
    found = attribution(np.array([[0.5, 0.3, 0.2]]), THREE.select((1,))).words()
    np.testing.assert_allclose(found.scores, [[0.8, 0.2]])
    assert found.targets.pieces == ("happy",)


def test_words_when_targets_were_taken_out_of_order_then_stay_two_rows() -> None:
    found = attribution().select([2, 0]).words()
    np.testing.assert_allclose(found.scores, [[0.4, 0.6], [0.8, 0.2]])
    assert found.targets.pieces == ("film", "un")


def test_words_when_special_tokens_are_there_then_stay_and_stay_special() -> None:
    found = attribution(np.array([[0.1, 0.2, 0.3, 0.3, 0.1]]), FIVE.select((0,)), FIVE).words()
    np.testing.assert_allclose(found.scores, [[0.1, 0.5, 0.3, 0.1]])
    assert found.sources.pieces == ("[S]", "unhappy", "film", "[S]")
    assert found.sources.special == (True, False, False, True)
    assert found.sources.ids == (0, None, 3, 4)


def test_words_when_merged_twice_then_change_nothing_more() -> None:
    once = attribution(per_layer=np.stack([SCORES, SCORES])).words()
    assert_equal(once.words(), once)


def test_words_when_there_are_maps_per_layer_then_they_are_merged_alike() -> None:
    found = attribution(per_layer=np.stack([SCORES, np.eye(3)])).words()
    assert found.per_layer is not None
    np.testing.assert_allclose(found.per_layer, [[[0.6, 0.4], [0.4, 0.6]], [[1, 0], [0, 1]]])


def test_words_when_there_is_no_text_then_are_refused() -> None:
    with pytest.raises(tw.InputError, match="give a text"):
        attribution(np.eye(2), anonymous(2), anonymous(2)).words()


def test_words_when_an_emoji_is_split_over_tokens_then_its_scores_are_added() -> None:
    sources = tokens("a 😀", [(0, 1), (1, 3), (2, 3), (2, 3), (2, 3)], [0, 1, 1, 1, 1])
    found = attribution(np.array([[0.2, 0.1, 0.2, 0.3, 0.2]]), THREE.select((2,)), sources).words()
    assert found.sources.pieces == ("a", "😀")
    np.testing.assert_allclose(found.scores, [[0.2, 0.8]])


# --- select, renormalised, top -------------------------------------------------------------------


def test_select_when_rows_are_named_then_gives_them_in_that_order() -> None:
    found = attribution().select([2, -3])
    np.testing.assert_array_equal(found.scores, SCORES[[2, 0]])
    assert found.targets.pieces == ("film", "un")
    assert found.sources == THREE


def test_select_when_special_is_off_then_drops_their_columns_and_nothing_else() -> None:
    scores = np.array([[0.1, 0.2, 0.3, 0.3, 0.1]])
    found = attribution(scores, FIVE.select((0,)), FIVE).select(special=False)
    np.testing.assert_array_equal(found.scores, [[0.2, 0.3, 0.3]])
    assert found.sources.pieces == ("un", "happy", "film")
    assert found.targets.pieces == ("[S]",)


def test_select_when_columns_are_dropped_then_the_receipt_does_not_claim_full_rows() -> None:
    scores = np.array([[0.1, 0.2, 0.3, 0.3, 0.1]])
    found = attribution(scores, FIVE.select((0,)), FIVE).select(special=False)
    assert found.row_sum_error == pytest.approx(0.2)


@pytest.mark.parametrize("rows", [[3], [-4], [0, 99]])
def test_select_when_a_row_is_not_there_then_is_refused(rows: list[int]) -> None:
    with pytest.raises(tw.InputError, match="3 targets"):
        attribution().select(rows)


def test_renormalised_when_rows_have_signs_then_absolute_values_sum_to_one() -> None:
    found = attribution(np.array([[1.0, -3.0], [0.0, 0.0]]), anonymous(2), anonymous(2))
    np.testing.assert_array_equal(found.renormalised().scores, [[0.25, -0.75], [0, 0]])


def test_top_when_asked_then_gives_the_largest_by_size_first() -> None:
    found = attribution(np.array([[0.1, -0.7, 0.2]]), THREE.select((0,)))
    assert found.top(2) == [("happy", -0.7), ("film", 0.2)]
    assert found.top(99) == [("happy", -0.7), ("film", 0.2), ("un", 0.1)]
    assert found.top(0) == []
    assert attribution().top(1, target=1) == [("film", 0.6)]


def test_top_when_scores_are_equal_then_keeps_the_order_of_the_text() -> None:
    found = attribution(np.full((1, 3), 1 / 3), THREE.select((0,)))
    assert [piece for piece, _ in found.top(3)] == ["un", "happy", "film"]


def test_top_when_the_row_is_not_there_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="3 targets"):
        attribution().top(1, target=3)


# --- out of the library --------------------------------------------------------------------------


def test_to_pandas_when_asked_then_has_a_row_for_every_pair() -> None:
    frame = attribution(SCORES[:2], THREE.select((0, 1))).to_pandas()
    assert list(frame.columns) == ["target", "target_token", "source", "source_token", "score"]
    assert list(frame["target"]) == [0, 0, 0, 1, 1, 1]
    assert list(frame["source_token"]) == ["un", "happy", "film"] * 2
    np.testing.assert_array_equal(frame["score"], SCORES[:2].ravel())


def test_to_dict_when_written_as_json_then_is_strict_and_complete() -> None:
    one = attribution(per_layer=np.stack([SCORES]).astype(np.float32))
    found = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    np.testing.assert_array_equal(found["scores"], SCORES)
    assert np.shape(found["per_layer"]) == (1, 3, 3)
    assert found["sources"]["pieces"] == ["un", "happy", "film"]
    assert found["receipt"]["assumed"] == ["nothing", "much"]
    assert found["method"] == "raw_attention"
    assert found["prediction"] == "LABEL_1"
    assert found["provenance"] == {"model": "tiny", "torch": "2"}


def test_to_dict_when_a_figure_is_not_a_number_then_is_still_json(tmp_path: Path) -> None:
    one = attribution(figures={"ratio": float("nan")})
    json.dumps(one.to_dict(), allow_nan=False)
    one.save(tmp_path / "a")
    strict_header(tmp_path / "a")


def strict_header(path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    with safe_open(str(path), framework="numpy") as file:
        return json.loads(file.metadata()["thalweg"], parse_constant=refuse)


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one",
    [
        attribution(),
        attribution(per_layer=np.stack([SCORES, SCORES.T]).astype(np.float32)),
        attribution(np.asfortranarray(SCORES)),
        attribution(SCORES.T),
        attribution(np.eye(2), anonymous(2), anonymous(2), prediction=None),
        attribution(np.array([[0.1, 0.2, 0.3, 0.3, 0.1]]), FIVE.select((0,)), FIVE),
        attribution(prediction="\x1b[2J 😀 \u202e"),
    ],
    ids=["plain", "per_layer", "fortran", "transposed", "no_text", "special", "unicode"],
)
def test_file_when_read_back_then_is_equal(one: tw.Attribution, tmp_path: Path) -> None:
    path = tmp_path / "result.safetensors"
    one.save(path)
    assert_equal(tw.Attribution.load(path), one)
    assert_equal(tw.Attribution.load(str(path)), one)
    assert strict_header(path)["method"] == one.method
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
    other = attribution(np.eye(3), prediction="LABEL_2")
    other.save(tmp_path / "result")
    assert_equal(tw.Attribution.load(tmp_path / "result"), other)


def tampered(path: Path, header: object, **arrays: np.ndarray) -> Path:
    save_file(arrays, path, metadata={"thalweg": json.dumps(header)})
    return path


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


# --- frozen --------------------------------------------------------------------------------------


def test_arrays_when_written_to_then_refuse() -> None:
    one = attribution(per_layer=np.stack([SCORES]))
    assert one.per_layer is not None
    for array in (one.scores, one.per_layer, one.words().scores, one.select([0]).scores):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_arrays_when_the_callers_own_is_changed_then_stay() -> None:
    mine = SCORES.copy()
    one = attribution(mine)
    mine[:] = 0
    np.testing.assert_array_equal(one.scores, SCORES)
    assert mine.flags.writeable


@pytest.mark.parametrize("name", ["scores", "targets", "method", "receipt"])
def test_fields_when_set_then_refuse(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(attribution(), name, None)


@pytest.mark.parametrize("name", ["params", "provenance"])
def test_mappings_when_written_to_then_refuse_or_leave_other_results_alone(name: str) -> None:
    given: dict[str, Any] = {name: {"layer": "1"}}
    one, other = attribution(**given), attribution(**given)
    with contextlib.suppress(TypeError):
        getattr(one, name)["layer"] = "2"
    assert getattr(other, name) == {"layer": "1"}


# --- comparison ----------------------------------------------------------------------------------


def test_agreement_when_ranks_are_known_then_is_spearmans() -> None:
    rows = ([[3.0, 2.0, 1.0]], [[30.0, 20.0, 10.0]], [[1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0]])
    ones = tuple(attribution(np.array(row), THREE.select((0,)), method=f"m{i}") for i, row in enumerate(rows))
    comparison = tw.Comparison(ones)
    assert comparison.methods == ("m0", "m1", "m2", "m3")
    found = comparison.agreement()
    np.testing.assert_allclose(found[:3, :3], [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert np.isnan(found[3]).all()
    written = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert written["agreement"][3] == [None] * 4
    assert len(written["attributions"]) == 4


def test_methods_when_listed_then_name_what_the_cases_above_use() -> None:
    assert {"raw_attention", "attention_rollout"} <= set(list_methods())


def test_error_bars_when_there_are_some_then_go_where_the_scores_go(tmp_path: Path) -> None:
    bars = np.full_like(SCORES, 0.01)
    one = attribution(errors=bars)
    one.save(tmp_path / "one")
    assert_equal(tw.Attribution.load(tmp_path / "one"), one)
    assert one.to_dict()["errors"] == bars.tolist()
    assert one.select([0]).errors is not None
    halved = attribution(scores=2 * SCORES, errors=bars).renormalised()
    assert halved.errors is not None
    assert halved.errors.max() < 0.01
    assert attribution().errors is None
