"""Matplotlib primitives."""

import subprocess
import sys

import matplotlib
import numpy as np

from thalweg.drawing.figures import MAX_TICK_LABELS, heat_map, label, map_size, new_figure, strips, tick_labels


def test_label_when_the_font_lacks_a_character_then_shows_a_box() -> None:
    assert label("a日\x1b") == "a▯\\x1b"
    assert label("x" * 30) == "x" * 17 + "…"
    assert label("x" * 30, 60) == "x" * 30


def test_tick_labels_when_they_look_like_formulas_then_are_drawn_as_they_are() -> None:
    figure = new_figure(3.0, 2.0)
    axes = figure.subplots()
    tick_labels(axes, "x", ["$x^", "$\\frac{1}{", "%", "_"])
    figure.draw_without_rendering()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["$x^", "$\\frac{1}{", "%", "_"]


def test_tick_labels_when_there_are_very_many_then_some_are_left_out() -> None:
    axes = new_figure(3.0, 2.0).subplots()
    tick_labels(axes, "y", [str(i) for i in range(200)])
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == [str(i) for i in range(0, 200, 4)]
    assert len(labels) <= MAX_TICK_LABELS


def test_heat_map_when_values_are_signed_then_zero_is_in_the_middle() -> None:
    for values, limits in ((np.array([[0.2, 0.5]]), (0, 0.5)), (np.array([[-0.2, 0.1]]), (-0.2, 0.2))):
        figure = new_figure(*map_size(values))
        axes = figure.subplots()
        heat_map(figure, axes, values, ["row"], ["a", "b"], "title")
        assert axes.images[0].get_clim() == limits


def test_strips_when_drawn_then_rows_are_relative_to_their_largest_and_matplotlib_is_unchanged() -> None:
    before = dict(matplotlib.rcParams)
    rows = {"alti": np.array([0.1, 0.2]), "decompx": np.array([-4.0, 2.0])}
    figure = strips(rows, ["a", "b"], "$title", np.eye(2))
    figure.draw_without_rendering()
    np.testing.assert_allclose(np.asarray(figure.axes[0].images[0].get_array()), [[0.5, 1.0], [-1.0, 0.5]])
    assert [text.get_text() for text in figure.axes[1].texts] == ["1.00", "0.00", "0.00", "1.00"]
    assert dict(matplotlib.rcParams) == before


def test_figure_when_matplotlib_is_missing_then_names_the_extra() -> None:
    code = (
        "import sys\nsys.modules['matplotlib'] = None\nsys.modules['matplotlib.figure'] = None\n"
        "import thalweg as tw\n"
        "from thalweg.drawing.figures import new_figure\n"
        "try:\n    new_figure(1, 1)\n"
        "except tw.ThalwegError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.startswith("MissingExtraError ") and "thalweg[plots]" in done.stdout
