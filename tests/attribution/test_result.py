"""Attributions and comparisons as results: words, selections, exports, immutability, agreement."""

import contextlib
import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import thalweg as tw
from tests.attribution.handmade import FIVE, SCORES, THREE, assert_equal, attribution
from tests.test_tokens import tokens
from thalweg.attribution.result import POOLED
from thalweg.tokens import anonymous


def test_words_when_merged_then_sources_are_summed_and_targets_averaged() -> None:
    result = attribution().words()
    np.testing.assert_allclose(result.scores, [[0.6, 0.4], [0.4, 0.6]])
    assert result.targets.pieces == result.sources.pieces == ("unhappy", "film")
    assert result.sources.spans == ((0, 7), (8, 12))
    assert result.sources.ids == (None, 2)


def test_words_when_rows_have_any_sum_then_keep_it() -> None:
    scores = np.array([[1.0, -3.0, 0.5], [2.0, 2.0, 2.0], [0.0, 0.0, -1.0]])
    result = attribution(scores).words()
    np.testing.assert_allclose(result.scores.sum(1), [(-1.5 + 6) / 2, -1])


def test_words_when_a_single_target_is_explained_then_only_sources_are_merged() -> None:
    result = attribution(np.array([[0.5, 0.3, 0.2]]), THREE.select((1,))).words()
    np.testing.assert_allclose(result.scores, [[0.8, 0.2]])
    assert result.targets.pieces == ("happy",)


def test_words_when_targets_were_taken_out_of_order_then_stay_two_rows() -> None:
    result = attribution().select([2, 0]).words()
    np.testing.assert_allclose(result.scores, [[0.4, 0.6], [0.8, 0.2]])
    assert result.targets.pieces == ("film", "un")


def test_words_when_special_tokens_are_there_then_stay_and_stay_special() -> None:
    result = attribution(np.array([[0.1, 0.2, 0.3, 0.3, 0.1]]), FIVE.select((0,)), FIVE).words()
    np.testing.assert_allclose(result.scores, [[0.1, 0.5, 0.3, 0.1]])
    assert result.sources.pieces == ("[S]", "unhappy", "film", "[S]")
    assert result.sources.special == (True, False, False, True)
    assert result.sources.ids == (0, None, 3, 4)


def test_words_when_merged_twice_then_change_nothing_more() -> None:
    once = attribution(per_layer=np.stack([SCORES, SCORES])).words()
    assert_equal(once.words(), once)


def test_words_when_there_are_maps_per_layer_then_they_are_merged_alike() -> None:
    result = attribution(per_layer=np.stack([SCORES, np.eye(3)])).words()
    assert result.per_layer is not None
    np.testing.assert_allclose(result.per_layer, [[[0.6, 0.4], [0.4, 0.6]], [[1, 0], [0, 1]]])


def test_words_when_there_is_no_text_then_are_refused() -> None:
    with pytest.raises(tw.InputError, match="pass a text"):
        attribution(np.eye(2), anonymous(2), anonymous(2)).words()


def test_words_when_an_emoji_is_split_over_tokens_then_its_scores_are_added() -> None:
    sources = tokens("a 😀", [(0, 1), (1, 3), (2, 3), (2, 3), (2, 3)], [0, 1, 1, 1, 1])
    result = attribution(np.array([[0.2, 0.1, 0.2, 0.3, 0.2]]), THREE.select((2,)), sources).words()
    assert result.sources.pieces == ("a", "😀")
    np.testing.assert_allclose(result.scores, [[0.2, 0.8]])


def test_select_when_rows_are_named_then_gives_them_in_that_order() -> None:
    result = attribution().select([2, -3])
    np.testing.assert_array_equal(result.scores, SCORES[[2, 0]])
    assert result.targets.pieces == ("film", "un")
    assert result.sources == THREE


def test_select_when_special_is_off_then_drops_their_columns_and_nothing_else() -> None:
    scores = np.array([[0.1, 0.2, 0.3, 0.3, 0.1]])
    result = attribution(scores, FIVE.select((0,)), FIVE).select(special=False)
    np.testing.assert_array_equal(result.scores, [[0.2, 0.3, 0.3]])
    assert result.sources.pieces == ("un", "happy", "film")
    assert result.targets.pieces == ("[S]",)


def test_select_when_columns_are_dropped_then_the_receipt_does_not_claim_full_rows() -> None:
    scores = np.array([[0.1, 0.2, 0.3, 0.3, 0.1]])
    result = attribution(scores, FIVE.select((0,)), FIVE).select(special=False)
    assert result.row_sum_error == pytest.approx(0.2)


@pytest.mark.parametrize("rows", [[3], [-4], [0, 99]])
def test_select_when_a_row_is_not_there_then_is_refused(rows: list[int]) -> None:
    with pytest.raises(tw.InputError, match="from -3 to 2"):
        attribution().select(rows)


def test_renormalised_when_rows_have_signs_then_absolute_values_sum_to_one() -> None:
    result = attribution(np.array([[1.0, -3.0], [0.0, 0.0]]), anonymous(2), anonymous(2))
    np.testing.assert_array_equal(result.renormalised().scores, [[0.25, -0.75], [0, 0]])


def test_top_when_scores_are_signed_then_sorts_by_absolute_value() -> None:
    result = attribution(np.array([[0.1, -0.7, 0.2]]), THREE.select((0,)))
    assert result.top(2) == [("happy", -0.7), ("film", 0.2)]
    assert result.top(99) == [("happy", -0.7), ("film", 0.2), ("un", 0.1)]
    assert result.top(0) == []
    assert attribution().top(1, target=1) == [("film", 0.6)]


def test_top_when_scores_are_equal_then_keeps_the_order_of_the_text() -> None:
    result = attribution(np.full((1, 3), 1 / 3), THREE.select((0,)))
    assert [piece for piece, _ in result.top(3)] == ["un", "happy", "film"]


def test_top_when_the_row_is_not_there_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="from -3 to 2"):
        attribution().top(1, target=3)


def test_to_pandas_when_converted_then_has_a_row_for_every_pair() -> None:
    frame = attribution(SCORES[:2], THREE.select((0, 1))).to_pandas()
    assert list(frame.columns) == [
        *("target", "target_token", "source", "source_token"),
        *("source_text", "source_unknown", "score"),
    ]
    assert list(frame["target"]) == [0, 0, 0, 1, 1, 1]
    assert list(frame["source_token"]) == ["un", "happy", "film"] * 2
    np.testing.assert_array_equal(frame["score"], SCORES[:2].ravel())


def test_to_dict_when_written_as_json_then_is_strict_and_complete() -> None:
    result = attribution(per_layer=np.stack([SCORES]).astype(np.float32))
    described = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    np.testing.assert_array_equal(described["scores"], SCORES)
    assert np.shape(described["per_layer"]) == (1, 3, 3)
    assert described["sources"]["pieces"] == ["un", "happy", "film"]
    assert described["receipt"]["assumed"] == ["nothing", "much"]
    assert described["method"] == "raw_attention"
    assert described["prediction"] == "LABEL_1"
    assert described["provenance"] == {"model": "tiny", "torch": "2"}


def test_arrays_when_written_to_then_refuse() -> None:
    result = attribution(per_layer=np.stack([SCORES]))
    assert result.per_layer is not None
    for array in (result.scores, result.per_layer, result.words().scores, result.select([0]).scores):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_arrays_when_the_callers_own_is_changed_then_stay() -> None:
    mine = SCORES.copy()
    result = attribution(mine)
    mine[:] = 0
    np.testing.assert_array_equal(result.scores, SCORES)
    assert mine.flags.writeable


@pytest.mark.parametrize("name", ["scores", "targets", "method", "receipt"])
def test_fields_when_set_then_refuse(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(attribution(), name, None)


@pytest.mark.parametrize("name", ["params", "provenance"])
def test_mappings_when_written_to_then_refuse_or_leave_other_results_alone(name: str) -> None:
    options: dict[str, Any] = {name: {"layer": "1"}}
    result, other = attribution(**options), attribution(**options)
    with contextlib.suppress(TypeError):
        getattr(result, name)["layer"] = "2"
    assert getattr(other, name) == {"layer": "1"}


def test_agreement_when_ranks_are_known_then_is_spearmans() -> None:
    rows = ([[3.0, 2.0, 1.0]], [[30.0, 20.0, 10.0]], [[1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0]])
    attributions = tuple(attribution(np.array(row), THREE.select((0,)), method=f"m{i}") for i, row in enumerate(rows))
    comparison = tw.Comparison(attributions)
    assert comparison.methods == ("m0", "m1", "m2", "m3")
    table = comparison.agreement()
    np.testing.assert_allclose(table[:3, :3], [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert np.isnan(table[3]).all()
    written = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert written["agreement"][3] == [None] * 4
    assert len(written["attributions"]) == 4


def test_positions_when_rows_or_columns_are_selected_then_follow_the_targets() -> None:
    specials = attribution(np.ones((2, 5)) / 5, FIVE.select((0, 4)), FIVE, positions=(0, 4))
    assert attribution().select([2, 0]).positions == (2, 0)
    assert specials.select([1]).positions == (4,)
    assert specials.select(special=False).positions == (POOLED, POOLED)
    assert attribution().words().positions == (0, 1)
    assert attribution(SCORES[:1], anonymous(1)).words().positions == (POOLED,)


def test_positions_when_a_token_occurs_twice_then_are_those_of_the_target(bundled: tw.Subject) -> None:
    pair = tw.explain(bundled, ("a film", "a film"), target=[6, 3])
    assert pair.positions == (6, 3)
    assert pair.targets.pieces == tuple(pair.sources.pieces[place] for place in (6, 3))
    ids = tw.explain(bundled, [2, 50, 50, 3], target=2)
    assert ids.positions == (2,)
