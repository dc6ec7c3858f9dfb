"""Identifiability results in a terminal, as a page and as a figure."""

from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Console

from tests.identifiability.test_head_result import ALTERNATIVES, INTERVALS
from tests.identifiability.test_length_result import LONG, SHORT
from tests.identifiability.test_result import HEAD, LAYER, OPEN, PARTLY, certificate
from thalweg.drawing.payload import Arrays
from thalweg.identifiability.length_result import LengthCurve
from thalweg.identifiability.result import HeadReport, Received
from thalweg.identifiability.view import describe_certificate, describe_example


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
    (columns, first, *_) = text.split("most misleading heads\n")[1].splitlines()
    assert columns.split()[:3] == ["head", "can", "move"]
    assert first.split() == ["0.2", "40%", "50%", "0%", "60.0%", "10%"]


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
    assert "60.0% (median margin 3.0e+00 × the cut)" in text
    assert "at least 40.0% (mean of 8 rows), 50.0%" in text


def test_length_curve_when_printed_then_has_a_row_per_length() -> None:
    lines = printed(LengthCurve((SHORT, LONG), {})).splitlines()
    assert "locally unique" in lines[1]
    assert lines[2].split() == [
        "8",
        "1",
        "8.0",
        "0.0%",
        "0.0%",
        "1.000",
        "1.000",
        "0%",
        "100%",
        "100%",
        "100.0%",
        "100.0%",
    ]
    assert lines[3].split() == [
        "32",
        "1",
        "16.0",
        "40.0%",
        "20.0%",
        "0.900",
        "0.800",
        "30%",
        "0%",
        "50%",
        "10.0%",
        "90.0%",
    ]


def test_page_when_written_then_has_the_headline_and_the_summary() -> None:
    page = certificate(HEAD, OPEN).to_html()
    assert "uniquely determined in 1 of 2 heads" in page
    described = describe_certificate(certificate(HEAD, PARTLY))
    assert described["heads"][1]["verdict"] == "locally unique given the keys"  # the key that the page looks up
    assert described["layers"] == []
    assert described["localRows"] == "100%"
    assert described["misleading"]["rows"] == [("0.1", "20%", "0%", "25.0%", "100%", "60%")]


def test_certificate_when_it_has_an_example_then_shows_it() -> None:
    plain = certificate(HEAD, PARTLY)
    assert "alternative attention" not in printed(plain)
    shown = replace(plain, example=replace(ALTERNATIVES, layer=0, head=1))
    assert "40% of its attention moved" in printed(shown)
    described = describe_example(shown, Arrays())
    assert described is not None and described["sentence"] == PARTLY.sentence()
    assert described["intervals"] == []
    own = replace(INTERVALS, layer=0, head=1)
    described = describe_example(shown, Arrays(), [INTERVALS, own])
    assert described is not None and described["intervals"][0] == [0, 1, 0.5, 0.25, 0.75]
    assert describe_example(plain, Arrays()) is None


def test_figure_when_drawn_then_has_a_cell_per_head() -> None:
    (axes, _) = certificate(HEAD, PARTLY, OPEN).plot().axes
    assert [text.get_text() for text in axes.texts] == ["●", "◐", "○"]
    assert axes.images[0].get_array().shape == (1, 3)  # pyright: ignore[reportOptionalMemberAccess]
