"""SVG charts: every value is at its place."""

import re
from xml.etree import ElementTree

import pytest

from thalweg.drawing import charts
from thalweg.drawing.charts import Column, Line, Point, columns, grid, legend, lines, percent


def drawn(markup: str, tag: str) -> list[dict[str, str]]:
    """Attributes of all elements with this tag; also proves that the chart is well-formed."""
    return [element.attrib for element in ElementTree.fromstring(markup).iter(tag)]


@pytest.mark.parametrize(
    ("low", "high", "finest", "ticks"),
    [
        (0.0, 1.0, 0.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.0, 0.1, 0.0, [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        (-0.3, 0.5, 0.0, [-0.4, -0.2, 0.0, 0.2, 0.4, 0.6]),
        (0.0, 3.0, 1.0, [0.0, 1.0, 2.0, 3.0]),
        (0.0, 1.0, 1.0, [0.0, 1.0]),
        (0.0, 7.0, 1.0, [0.0, 2.0, 4.0, 6.0, 8.0]),
    ],
)
def test_ticks_when_chosen_then_are_round_and_enclose_the_values(
    low: float, high: float, finest: float, ticks: list[float]
) -> None:
    assert charts._ticks(low, high, finest) == ticks


def test_lines_when_drawn_then_points_are_at_their_values_and_sparse_ones_hollow() -> None:
    points = [Point(0.0, 0.0, 0.0, 0.0, False, "first"), Point(1.0, 1.0, 0.5, 1.0, True, "<second>")]
    chart = lines("Title", "layer", "share", [Line(0, points)], [(0.0, "0"), (1.0, "1")])
    first, second = drawn(chart, "circle")
    bottom, top = charts.HEIGHT - charts.BOTTOM, charts.TOP
    assert (float(first["cy"]), float(second["cy"])) == (bottom, top)
    assert float(second["cx"]) - float(first["cx"]) == charts.WIDTH - charts.LEFT - charts.RIGHT - 12
    assert (first["class"], second["class"]) == ("series-0", "sparse series-0")
    assert "<title>&lt;second&gt;</title>" in chart
    band = drawn(chart, "polygon")[0]["points"].split()
    assert [float(point.split(",")[1]) for point in band] == [bottom, top, (bottom + top) / 2, bottom]


def test_lines_when_there_is_one_place_then_are_drawn_all_the_same() -> None:
    assert len(drawn(lines("t", "x", "y", [Line(7, [Point(3.0, 0.2, 0.1, 0.3, False, "")])], []), "circle")) == 1


def test_columns_when_stacked_then_parts_lie_on_top_of_each_other() -> None:
    stack = Column(0.0, 1.0, [("yes", 1.0), ("no", 3.0)], "four")
    lower, upper = drawn(columns("t", "x", "y", [stack], [], counts=True), "rect")
    height = charts.HEIGHT - charts.BOTTOM - charts.TOP
    assert float(lower["height"]) == pytest.approx(height / 4, abs=0.01)
    assert float(upper["height"]) == pytest.approx(3 * height / 4, abs=0.01)
    assert float(upper["y"]) + float(upper["height"]) == pytest.approx(float(lower["y"]), abs=0.01)
    assert (lower["class"], upper["class"]) == ("yes", "no")


def test_axis_labels_when_there_are_many_then_are_thinned_out() -> None:
    many = [(float(layer), f"label{layer}") for layer in range(30)]
    chart = lines("t", "x", "y", [Line(0, [Point(0.0, 0.5, 0.4, 0.6, False, "")])], many)
    assert len(re.findall(r">label\d+<", chart)) == 8


def test_grid_when_drawn_then_has_the_last_layer_on_top_and_bars_as_wide_as_their_shares() -> None:
    cells = [
        (layer, head, f"{layer}.{head}", [("yes", 0.25), ("no", 0.75)], "t") for layer in (0, 1) for head in (0, 1)
    ]
    chart = grid("Heads", [0, 1], cells)
    places = {match[2]: float(match[1]) for match in re.finditer(r'y="([\d.]+)"[^>]*class="value">([\d.]+)<', chart)}
    assert places["1.0"] < places["0.0"]
    first, second = drawn(chart, "rect")[:2]
    assert float(second["width"]) == 3 * float(first["width"])
    assert float(second["x"]) == float(first["x"]) + float(first["width"])


def test_legend_when_written_then_has_lines_for_series_and_squares_for_the_rest() -> None:
    shown = legend([("series-1", "<alti>"), ("yes", "identifiable")])
    assert len(drawn(shown, "polyline")) == len(drawn(shown, "rect")) == 1
    assert "&lt;alti&gt;" in shown


def test_percent_when_negative_then_has_a_true_minus() -> None:
    assert (percent(-0.25), percent(0.1)) == ("−25%", "10%")
