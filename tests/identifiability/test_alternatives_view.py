"""The teaching picture in a terminal, on a page and as a figure."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import thalweg as tw
from tests.identifiability.test_head_result import ALTERNATIVE, ALTERNATIVES, INTERVALS
from tests.identifiability.test_result import HEAD
from tests.identifiability.test_view import printed
from tests.payloads import decode, payload_of
from thalweg.drawing.payload import Arrays
from thalweg.identifiability.alternatives_view import (
    alternatives_text,
    describe_alternatives,
    describe_intervals,
    drawn_row,
    evidence,
    replaced,
)
from thalweg.identifiability.head_result import Alternatives
from thalweg.identifiability.result import HeadReport

TWO_ROWS = replace(
    ALTERNATIVES,
    targets=(0, 1),
    weights=np.array([[0.6, 0.2, 0.2], [0.3, 0.3, 0.4]]),
    head_output=np.array([[1.0, -2.0], [0.5, 0.5]]),
)
NONE = replace(ALTERNATIVES, polytope=None, missing={"polytope": "attention is determined", "keys": "unique"})


def test_alternatives_when_printed_then_both_rows_and_the_same_outputs_are_side_by_side() -> None:
    lines = [line.split() for line in printed(ALTERNATIVES).splitlines()]
    assert ["row", "of", "‘#0’", "(0):", "40%", "of", "its", "attention", "moved"] in lines
    (first,) = [line for line in lines if line[1:2] == ["(0)"]]
    assert (first[2], first[4]) == ("0.60", "0.20")
    assert (first[3].count("█"), first[5].count("█")) == (16, 5)
    assert ["logits,", "positive", "2.5000", "2.5000"] in lines
    assert ["head,", "this", "row", "1.000,", "-2.000,", "…", "1.000,", "-2.000,", "…"] in lines


def test_alternatives_when_there_are_intervals_then_their_ranges_are_printed() -> None:
    text = printed(alternatives_text(ALTERNATIVES, INTERVALS))
    assert "0.25 to 0.75" in text
    assert "0.25 to 0.75" in printed(HeadReport(HEAD, INTERVALS, ALTERNATIVES), width=60)
    assert "range" not in printed(ALTERNATIVES)


def test_alternatives_when_not_proved_then_print_a_warning() -> None:
    assert "PROVED" not in printed(ALTERNATIVES)
    assert "NOT PROVED" in evidence(replace(ALTERNATIVE, moved=1.0))
    assert "rounding hides" in evidence(replace(ALTERNATIVE, control=0.0))


def test_alternatives_when_there_is_none_then_only_the_reasons_are_printed() -> None:
    text = printed(NONE)
    assert "any distribution: attention is determined" in text
    assert "original" not in text
    with pytest.raises(tw.InputError, match="attention is determined"):
        NONE.plot()
    assert describe_alternatives(NONE, Arrays())["other"] is None


def test_replaced_when_some_rows_cannot_move_then_keeps_them() -> None:
    np.testing.assert_array_equal(replaced(TWO_ROWS, ALTERNATIVE), [[0.2, 0.4, 0.4], [0.3, 0.3, 0.4]])
    assert TWO_ROWS.weights[0, 0] == 0.6


def test_drawn_row_when_there_are_intervals_then_is_theirs() -> None:
    other = replace(
        ALTERNATIVE,
        targets=(0, 1),
        weights=np.eye(3)[:2],
        total_variation=np.array([0.4, 0.7]),
        at_most=np.ones(2),
        head_output=np.zeros((2, 2)),
    )
    assert drawn_row(TWO_ROWS, other, None) == (1, 1)
    assert drawn_row(TWO_ROWS, other, INTERVALS) == (0, 0)
    assert drawn_row(TWO_ROWS, other, replace(INTERVALS, targets=np.array([2, 2]))) == (1, 1)


@pytest.mark.parametrize("result", [ALTERNATIVES, HeadReport(HEAD, INTERVALS, ALTERNATIVES)])
def test_page_when_written_then_holds_both_maps_and_the_outputs(result: Alternatives | HeadReport) -> None:
    described, buffer = decode(payload_of(result.to_html()))
    picture = described["alternatives"]
    assert (picture["layer"], picture["head"], picture["targets"], picture["moved"]) == (1, 2, [0], [0.4])
    assert picture["outputs"] == [[2.5, -1.0], [2.5, -1.0]]
    assert picture["original"]["codes"]["offset"] != picture["other"]["codes"]["offset"]
    assert picture["headOutputs"][0] == picture["headOutputs"][1]  # equal arrays are stored once
    assert bool(picture["intervals"]) == isinstance(result, HeadReport)
    assert "srcdoc" in result._repr_html_()
    assert buffer


def test_page_when_a_text_is_long_then_holds_the_drawn_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.identifiability.alternatives_view.MAPS_TOKENS", 2)
    described = describe_alternatives(TWO_ROWS, Arrays())
    assert (described["targets"], described["row"], described["original"]["rows"]) == ([0], 0, 1)


def test_intervals_when_described_for_a_page_then_are_rows_of_rounded_numbers() -> None:
    described = describe_intervals(replace(INTERVALS, weights=np.array([0.5000001, 0.3])))
    assert described["rows"] == [[0, 1, 0.5, 0.25, 0.75], [0, 2, 0.3, 0.3, 0.3]]


def heights(axes: Any) -> list[float]:
    return [bar.get_height() for bar in axes.patches]


def test_figure_when_drawn_then_has_both_maps_on_one_scale_and_pairs_of_bars() -> None:
    figure = HeadReport(HEAD, INTERVALS, TWO_ROWS).plot()
    first, second, row, output = figure.axes[:4]
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0, 0.6)
    assert heights(row) == [0.6, 0.2, 0.2, 0.2, 0.4, 0.4]
    assert len(row.lines) == 1 + 2  # the axis, and an interval for two weights
    assert heights(output) == [2.5, -1.0, 2.5, -1.0]
