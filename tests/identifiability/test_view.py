"""Identifiability results in a terminal, as a page and as a figure."""

from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console

from tests.identifiability.test_head_result import ALTERNATIVE, ALTERNATIVES, INTERVALS
from tests.identifiability.test_length_result import LONG, SHORT
from tests.identifiability.test_result import HEAD, LAYER, OPEN, PARTLY, certificate
from thalweg.identifiability.head_result import HeadReport
from thalweg.identifiability.length_result import LengthCurve
from thalweg.identifiability.result import Received
from thalweg.identifiability.view import describe_certificate, describe_intervals


def printed(result: Any, width: int = 200) -> str:
    out = StringIO()
    Console(file=out, width=width).print(result)
    return out.getvalue()


def test_certificate_when_printed_then_has_the_legend_marks_and_misleading_heads() -> None:
    shifted = replace(OPEN, received={"[SEP]": Received(0.8, 0.5, 0.3), "content": Received(0.2, 0.2, 0.2)})
    mixed = replace(LAYER, heads_added=True, ambiguity_together=9)
    text = printed(certificate(HEAD, PARTLY, shifted, layers=(mixed,)))
    assert "◐ locally unique given the keys" in text
    assert "●" in text
    assert "○40%" in text.replace("○ 40%", "○40%")
    assert "[SEP] 0.80 → 0.30" in text
    assert "content 0.20" not in text
    assert "3 more than" in text


def test_certificate_when_the_window_is_narrow_then_every_head_keeps_its_mark() -> None:
    heads = [replace(OPEN, head=number) for number in range(40)]
    text = printed(certificate(*heads), width=50)
    assert text.count("○") >= 40


def test_head_report_when_printed_then_has_figures_ranges_and_evidence() -> None:
    text = printed(HeadReport(OPEN, INTERVALS, ALTERNATIVES))
    assert "0.250 to 0.750" in text
    assert "40% of the mass" in text
    assert "all are locally unique" in text
    assert "16, 17" in text


def test_alternatives_when_not_proved_then_print_a_warning() -> None:
    assert "PROVED" not in printed(ALTERNATIVES)
    assert "NOT PROVED" in printed(replace(ALTERNATIVES, polytope=replace(ALTERNATIVE, moved=1.0)))
    assert "rounding hides" in printed(replace(ALTERNATIVES, polytope=replace(ALTERNATIVE, control=0.0)))


def test_length_curve_when_printed_then_has_a_row_per_length() -> None:
    lines = printed(LengthCurve((SHORT, LONG), {})).splitlines()
    assert "locally unique" in lines[1]
    assert lines[2].split() == ["8", "1", "8.0", "0.0%", "0.0%", "1.000", "1.000", "100%", "100%"]
    assert lines[3].split() == ["32", "1", "16.0", "40.0%", "20.0%", "0.900", "0.800", "0%", "50%"]


def test_page_when_written_then_has_the_headline_and_the_summary() -> None:
    page = certificate(HEAD, OPEN).to_html()
    assert "uniquely determined in 1 of 2 heads" in page
    described = describe_certificate(certificate(HEAD, PARTLY))
    assert described["heads"][1]["verdict"] == "locally unique given the keys"  # the key that the page looks up
    assert described["layers"] == []


def test_intervals_when_described_for_a_page_then_are_rows_of_rounded_numbers() -> None:
    described = describe_intervals(replace(INTERVALS, weights=np.array([0.5000001, 0.3])))
    assert described["rows"] == [[0, 1, 0.5, 0.25, 0.75], [0, 2, 0.3, 0.3, 0.3]]


def test_figure_when_drawn_then_has_a_cell_per_head() -> None:
    (axes, _) = certificate(HEAD, PARTLY, OPEN).plot().axes
    assert [text.get_text() for text in axes.texts] == ["●", "◐", "○"]
    assert axes.images[0].get_array().shape == (1, 3)  # pyright: ignore[reportOptionalMemberAccess]
