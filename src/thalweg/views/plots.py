"""Results as matplotlib figures, made without pyplot: no window, no global state."""

from collections.abc import Mapping, Sequence
from functools import cache, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.axes import ScoreArray
from thalweg.errors import InputError, MissingExtraError
from thalweg.results.attribution import Attribution
from thalweg.results.comparison import Comparison
from thalweg.results.report import POOLED, Report
from thalweg.results.trust import Certificate
from thalweg.views.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

BLUE, ORANGE = "#185aaa", "#c85408"
MOST_BARS = 48  # tokens; of longer texts the largest
MOST_LABELS = 64
DPI = 200  # of a picture
MARKS = {"identifiable": "●", "identifiable given the keys": "◐", "not identifiable": "○"}


def plot(result: object) -> "Figure":
    """A figure for a paper: sizes in inches, one or two columns wide."""
    try:
        import matplotlib.figure  # noqa: F401 - asked for here, once
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: install thalweg[plots]") from error
    return _drawn(result)


@singledispatch
def _drawn(result: object) -> "Figure":
    raise TypeError(f"there is no figure of a {type(result).__name__}")


@_drawn.register(Attribution)
def _(attribution: Attribution) -> "Figure":
    labels = [_label(piece) for piece in attribution.sources.pieces]
    if len(attribution.targets) > 1:
        figure = _figure(*_square(attribution.scores))
        _heat(figure, figure.subplots(), attribution.scores, attribution.targets.pieces, labels, attribution.method)
        return figure
    scores = attribution.scores[0]
    chosen = np.sort(np.argsort(-np.abs(scores), kind="stable")[:MOST_BARS])
    figure = _figure(max(3.3, 0.22 * len(chosen) + 0.8), 2.4)
    axes = figure.subplots()
    errors = None if attribution.errors is None else attribution.errors[0, chosen]
    colours = [BLUE if score >= 0 else ORANGE for score in scores[chosen]]
    axes.bar(range(len(chosen)), scores[chosen], color=colours, width=0.8, yerr=errors, error_kw={"lw": 0.8})
    axes.axhline(0, color="black", lw=0.6)
    _names(axes, "x", [labels[i] for i in chosen])
    axes.set_ylabel("score")
    axes.spines[["top", "right"]].set_visible(False)
    left = len(scores) - len(chosen)
    _title(axes, _about(attribution) + (f"; {left} smaller ones left out" if left else ""))
    return figure


@_drawn.register(Comparison)
def _(comparison: Comparison) -> "Figure":
    first = comparison.attributions[0]
    if len(first.targets) == 1:
        rows = {one.method: one.scores[0] for one in comparison.attributions}
        return _strips(rows, first.sources.pieces, _about(first, method=False), comparison.agreement())
    width, height = _square(first.scores)
    figure = _figure(width * len(comparison.methods), height)
    panels = figure.subplots(1, len(comparison.methods), squeeze=False)[0]
    for axes, one in zip(panels, comparison.attributions, strict=True):
        _heat(figure, axes, one.scores, one.targets.pieces, one.sources.pieces, one.method)
    return figure


@_drawn.register(Report)
def _(report: Report) -> "Figure":
    wanted = report.target or (POOLED,)
    rows = {one.method: one.received(wanted) for one in report.explained if set(wanted) <= set(one.targets)}
    if not rows:
        raise InputError("no method of this report explains its target: there is nothing to draw")
    places = [place for place in wanted if place != POOLED]
    title = " ".join(_label(report.tokens.pieces[place]) for place in places) or "all positions"
    title = title if report.prediction is None else f"prediction {_label(report.prediction)}"
    return _strips(rows, report.tokens.pieces, title)


@_drawn.register(Certificate)
def _(certificate: Certificate) -> "Figure":
    layers = len(certificate.blocks)
    heads = max(one.head for one in certificate.heads) + 1
    shares = np.full((layers, heads), np.nan)
    for one in certificate.heads:
        shares[one.layer, one.head] = one.null_share_row_sum
    figure = _figure(0.42 * heads + 1.6, 0.32 * layers + 1.3)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap=_sequential(), vmin=0, vmax=max(0.01, float(np.nanmax(shares))), aspect="auto")
    for one in certificate.heads:
        front = "white" if shares[one.layer, one.head] > 0.6 * np.nanmax(shares) else "black"
        axes.text(one.head, one.layer, MARKS[one.verdict], ha="center", va="center", color=front, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_xticks(range(heads))
    axes.set_yticks(range(layers))
    figure.colorbar(image, ax=axes, label="share without effect")
    _title(axes, "● identifiable   ◐ given the keys   ○ not")
    return figure


def _strips(
    rows: Mapping[str, ScoreArray | Any], pieces: Sequence[str], title: str, agreement: np.ndarray | None = None
) -> "Figure":
    """Methods as rows over the tokens, each relative to its largest; agreement beside them."""
    names = list(rows)
    scaled = np.stack([row / max(float(np.abs(row).max()), 1e-12) for row in rows.values()])
    beside = agreement is not None
    width = max(3.3, min(12.0, 0.2 * len(pieces) + 1.8))
    figure = _figure(width + (2.6 if beside else 0), 0.34 * len(names) + 1.7)
    panels = figure.subplots(1, 2, width_ratios=[width, 2.6]) if beside else [figure.subplots()]
    _heat(figure, panels[0], scaled, names, pieces, f"{title}; each method relative to its largest")
    if agreement is not None:
        axes = panels[1]
        axes.imshow(agreement, cmap=_diverging(), vmin=-1, vmax=1)
        for i, j in np.ndindex(*agreement.shape):
            front = "white" if abs(agreement[i, j]) > 0.6 else "black"
            axes.text(j, i, f"{agreement[i, j]:.2f}", ha="center", va="center", fontsize=7, color=front)
        _names(axes, "x", names)
        axes.set_yticks([])
        _title(axes, "rank agreement")
    return figure


def _heat(
    figure: "Figure", axes: "Axes", values: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str
) -> None:
    size = max(float(np.abs(values).max()), 1e-12)
    signed = bool((values < 0).any())
    image = axes.imshow(
        values,
        cmap=_diverging() if signed else _sequential(),
        vmin=-size if signed else 0,
        vmax=size,
        aspect="auto",
        interpolation="nearest",
    )
    _names(axes, "x", [_label(one) for one in columns])
    _names(axes, "y", [_label(one) for one in rows])
    figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    _title(axes, title)


def _names(axes: "Axes", which: str, names: Sequence[str]) -> None:
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


def _title(axes: "Axes", text: str) -> None:
    axes.set_title(text, fontsize=8, loc="left").set_parse_math(False)


def _about(attribution: Attribution, method: bool = True) -> str:
    what = attribution.targets.pieces[0] if attribution.prediction is None else f"prediction {attribution.prediction}"
    return f"{attribution.method}: {_label(what, 60)}" if method else _label(what, 60)


def _label(piece: str, most: int = 18) -> str:
    """A token in letters that the font has; ▯ for one that it lacks, which matplotlib would warn about."""
    known = _letters()
    text = "".join(c if ord(c) in known else "▯" for c in printable(piece))
    return text if len(text) <= most else text[: most - 1] + "…"


def _square(scores: np.ndarray) -> tuple[float, float]:
    rows, columns = scores.shape
    return max(3.3, min(9.0, 0.17 * columns + 1.6)), max(2.4, min(9.0, 0.17 * rows + 1.2))


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=DPI)


def _sequential() -> "Colormap":
    return _colours("white", BLUE)


def _diverging() -> "Colormap":
    return _colours(ORANGE, "white", BLUE)


def _colours(*stops: str) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("thalweg", list(stops))


@cache
def _letters() -> frozenset[int]:
    """What matplotlib's own font can write."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())
