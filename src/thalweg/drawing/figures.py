"""Matplotlib primitives, without pyplot: no window, no global state."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.axes import ScoreArray
from thalweg.drawing.terminal import printable
from thalweg.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

BLUE, ORANGE = "#185aaa", "#c85408"
MOST_BARS = 48  # tokens; of longer texts the largest
MOST_LABELS = 64
DPI = 200  # of a picture


def strips(
    rows: Mapping[str, ScoreArray | Any], pieces: Sequence[str], title: str, agreement: np.ndarray | None = None
) -> "Figure":
    """Methods as rows over the tokens, each relative to its largest; agreement beside them."""
    names = list(rows)
    scaled = np.stack([row / max(float(np.abs(row).max()), 1e-12) for row in rows.values()])
    beside = agreement is not None
    width = max(3.3, min(12.0, 0.2 * len(pieces) + 1.8))
    figure = new_figure(width + (2.6 if beside else 0), 0.34 * len(names) + 1.7)
    panels = figure.subplots(1, 2, width_ratios=[width, 2.6]) if beside else [figure.subplots()]
    heat_map(figure, panels[0], scaled, names, pieces, f"{title}; each method relative to its largest")
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
    tick_labels(axes, "x", [label(one) for one in columns])
    tick_labels(axes, "y", [label(one) for one in rows])
    figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    set_title(axes, title)


def tick_labels(axes: "Axes", which: str, names: Sequence[str]) -> None:
    """Tick labels as plain text, no dollar sign read as a formula; of very many every so many."""
    step = -(-len(names) // MOST_LABELS)
    places = range(0, len(names), step)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(list(places))
    axis.set_ticklabels([names[i] for i in places])
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
        if which == "x":
            label.set_rotation(60)
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def set_title(axes: "Axes", text: str) -> None:
    axes.set_title(text, fontsize=8, loc="left").set_parse_math(False)


def label(piece: str, most: int = 18) -> str:
    """A token in letters that the font has; ▯ for one that it lacks, which matplotlib would warn about."""
    known = _letters()
    text = "".join(c if ord(c) in known else "▯" for c in printable(piece))
    return text if len(text) <= most else text[: most - 1] + "…"


def map_size(scores: np.ndarray) -> tuple[float, float]:
    rows, columns = scores.shape
    return max(3.3, min(9.0, 0.17 * columns + 1.6)), max(2.4, min(9.0, 0.17 * rows + 1.2))


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure; sizes are in inches, one or two columns of a paper wide."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: install thalweg[plots]") from error
    return Figure(figsize=(width, height), layout="constrained", dpi=DPI)


def sequential() -> "Colormap":
    return _colours("white", BLUE)


def diverging() -> "Colormap":
    return _colours(ORANGE, "white", BLUE)


def _colours(*stops: str) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("thalweg", list(stops))


@cache
def _letters() -> frozenset[int]:
    """What matplotlib's own font can write."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())
