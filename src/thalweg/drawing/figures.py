"""Matplotlib primitives that avoid pyplot: no windows, no global state."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.axes import ScoreArray
from thalweg.errors import MissingExtraError
from thalweg.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

BLUE, ORANGE = "#185aaa", "#c85408"
MAX_BARS = 48  # longer texts show their largest scores
MAX_TICK_LABELS = 64
MAX_LABEL_CHARACTERS = 18
DPI = 200


def strips(
    rows: Mapping[str, ScoreArray | Any], pieces: Sequence[str], title: str, agreement: np.ndarray | None = None
) -> "Figure":
    """A heat map of methods over tokens, each row relative to its largest score, and their rank agreement."""
    names = list(rows)
    scaled = np.stack([row / max(float(np.abs(row).max()), 1e-12) for row in rows.values()])
    beside = agreement is not None
    width = max(3.3, min(12.0, 0.2 * len(pieces) + 1.8))
    figure = new_figure(width + (2.6 if beside else 0), 0.34 * len(names) + 1.7)
    panels = figure.subplots(1, 2, width_ratios=[width, 2.6]) if beside else [figure.subplots()]
    heat_map(figure, panels[0], scaled, names, pieces, f"{title}; each method relative to its largest score")
    if agreement is not None:
        axes = panels[1]
        axes.imshow(agreement, cmap=diverging(), vmin=-1, vmax=1)
        for i, j in np.ndindex(*agreement.shape):
            front = "white" if abs(agreement[i, j]) > 0.6 else "black"
            axes.text(j, i, f"{agreement[i, j]:.2f}", ha="center", va="center", fontsize=7, color=front)
        tick_labels(axes, "x", names)
        axes.set_yticks([])
        set_title(axes, "rank agreement")
    return figure


def heat_map(
    figure: "Figure", axes: "Axes", values: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str
) -> None:
    """Draw values as colours with a colour bar; blue is positive, orange negative."""
    size = max(float(np.abs(values).max()), 1e-12)
    signed = bool((values < 0).any())
    image = axes.imshow(
        values,
        cmap=diverging() if signed else sequential(),
        vmin=-size if signed else 0,
        vmax=size,
        aspect="auto",
        interpolation="nearest",
    )
    tick_labels(axes, "x", [label(name) for name in columns])
    tick_labels(axes, "y", [label(name) for name in rows])
    figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    set_title(axes, title)


def tick_labels(axes: "Axes", which: str, names: Sequence[str]) -> None:
    """Label an axis with plain text, in which dollar signs start no formula; long axes label every n-th tick."""
    step = -(-len(names) // MAX_TICK_LABELS)
    labelled = range(0, len(names), step)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(list(labelled))
    axis.set_ticklabels([names[i] for i in labelled])
    for text in axis.get_ticklabels():
        text.set_parse_math(False)
        if which == "x":
            text.set_rotation(60)
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


def set_title(axes: "Axes", text: str) -> None:
    """Set a small left-aligned title, as plain text."""
    axes.set_title(text, fontsize=8, loc="left").set_parse_math(False)


def label(piece: str, characters: int = MAX_LABEL_CHARACTERS) -> str:
    """A token as a short label. Characters that the font lacks become ▯, since matplotlib would warn about them."""
    known = _font_characters()
    text = "".join(c if ord(c) in known else "▯" for c in printable(piece))
    return text if len(text) <= characters else text[: characters - 1] + "…"


def map_size(scores: np.ndarray) -> tuple[float, float]:
    """Width and height in inches of a heat map of these scores."""
    rows, columns = scores.shape
    return max(3.3, min(9.0, 0.17 * columns + 1.6)), max(2.4, min(9.0, 0.17 * rows + 1.2))


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: install thalweg[plots]") from error
    return Figure(figsize=(width, height), layout="constrained", dpi=DPI)


def sequential() -> "Colormap":
    """White to blue."""
    return _colours("white", BLUE)


def diverging() -> "Colormap":
    """Orange through white to blue."""
    return _colours(ORANGE, "white", BLUE)


def _colours(*stops: str) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("thalweg", list(stops))


@cache
def _font_characters() -> frozenset[int]:
    """Code points of matplotlib's default font."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())
