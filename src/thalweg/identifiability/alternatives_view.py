"""The teaching picture: original and alternative attention of a head side by side, and the output that both have."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.figures import BLUE, ORANGE, heat_map, label, new_figure, set_title
from thalweg.drawing.packed import pack
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays, describe_receipt
from thalweg.drawing.terminal import Fitted, fitted_table
from thalweg.errors import InputError
from thalweg.identifiability.head_result import Alternative, Alternatives, Intervals
from thalweg.jsonable import jsonable
from thalweg.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_KEYS = 8  # of the drawn row, largest first in either map
BAR_CHARACTERS = 16
MAPS_TOKENS = 512  # longer texts show the drawn row without the maps
KINDS = {"polytope": "any distribution", "keys": "softmax of the head's own keys"}


def alternatives_text(alternatives: Alternatives, intervals: Intervals | None = None) -> RenderableType:
    """The drawn row in both maps, the outputs below them, and the evidence for every alternative."""
    parts: list[RenderableType] = [Text("alternative attention with the same output", "bold")]
    if (other := alternatives.best) is not None:
        parts += [_rows_side_by_side(alternatives, other, intervals), _outputs(alternatives, other, intervals), Text()]
    for name, title in KINDS.items():
        alternative = getattr(alternatives, name)
        parts.append(Text(f"{title}: {alternatives.missing[name] if alternative is None else evidence(alternative)}"))
    return Group(*parts)


def evidence(alternative: Alternative) -> str:
    """How far attention moved, and what running the model with it changed."""
    mass = alternative.total_variation
    warning = (
        ""
        if alternative.proved
        else ". NOT PROVED: the output moved"
        if alternative.moved > alternative.allowed
        else ". Inconclusive: rounding hides this head's attention from the output"
    )
    return (
        f"up to {mass.max():.0%} of the mass can move in {len(mass)} rows (mean {mass.mean():.0%}). Running the model "
        f"with it changes its {alternative.compared} by {alternative.moved:.0e} of their size (rounding explains "
        f"{alternative.allowed:.0e}); an equally large random change, by {alternative.control:.0e}{warning}"
    )


def drawn_row(alternatives: Alternatives, other: Alternative, intervals: Intervals | None) -> tuple[int, int]:
    """The first row with intervals, or else the one that moved most: its index among all rows and the replaced ones."""
    wanted = [] if intervals is None else [target for target in intervals.targets.tolist() if target in other.targets]
    row = other.targets.index(wanted[0]) if wanted else int(other.total_variation.argmax())
    return alternatives.targets.index(other.targets[row]), row


def replaced(alternatives: Alternatives, other: Alternative) -> Float[np.ndarray, "target source"]:
    """The whole alternative map: rows that cannot move keep their weights."""
    weights = alternatives.weights.copy()
    weights[[alternatives.targets.index(target) for target in other.targets]] = other.weights
    return weights


def _largest(*rows: Float[np.ndarray, " source"]) -> list[int]:
    """Positions of the largest weights in either row, largest first."""
    return np.argsort(-np.maximum(*rows), kind="stable")[:SHOWN_KEYS].tolist()


def _ranges(intervals: Intervals | None, target: int) -> dict[int, tuple[float, float]]:
    """The intervals of one row, by source."""
    if intervals is None:
        return {}
    columns = zip(intervals.targets, intervals.sources, intervals.low, intervals.high, strict=True)
    return {int(source): (float(low), float(high)) for row, source, low, high in columns if row == target}


def _rows_side_by_side(alternatives: Alternatives, other: Alternative, intervals: Intervals | None) -> Fitted:
    """The drawn row in both maps with bars, or in a narrow window without."""
    pieces = alternatives.tokens.pieces
    row, moved = drawn_row(alternatives, other, intervals)
    before, after = alternatives.weights[row], other.weights[moved]
    target = alternatives.targets[row]
    ranges = _ranges(intervals, target)
    names = ("source", "original", "alternative", *(["range"] if ranges else []))
    title = (
        f"row of ‘{printable(pieces[target])}’ ({target}): {other.total_variation[moved]:.0%} of its attention moved"
    )
    wide = Table(*names, box=None, header_style="dim", padding=(0, 1))
    narrow: list[tuple[Text | str, ...]] = []
    size = max(before.max(), after.max())
    for source in _largest(before, after):
        name = Text(f"{printable(pieces[source])} ({source})")
        interval = ("{:.2f} to {:.2f}".format(*ranges[source]) if source in ranges else "",) if ranges else ()
        wide.add_row(name, _bar(before[source], size, "blue"), _bar(after[source], size, "dark_orange"), *interval)
        narrow.append((name, f"{before[source]:.2f}", f"{after[source]:.2f}", *interval))
    return Fitted(Group(Text(title), wide), Group(Text(title), fitted_table(names, narrow)))


def _bar(weight: float, size: float, style: str) -> Text:
    filled = round(weight / size * BAR_CHARACTERS)
    return Text(f"{weight:.2f} ").append("█" * filled, style).append("·" * (BAR_CHARACTERS - filled), "dim")


def _outputs(alternatives: Alternatives, other: Alternative, intervals: Intervals | None) -> Fitted:
    row, moved = drawn_row(alternatives, other, intervals)
    vectors = (alternatives.head_output[row], other.head_output[moved])
    rows: list[tuple[Text | str, ...]] = [
        ("head, this row", *(", ".join(f"{number:.3f}" for number in vector[:2]) + ", …" for vector in vectors))
    ]
    for name, *values in zip(alternatives.output_names, alternatives.output, other.output, strict=True):
        rows.append((Text(f"{other.compared}, {printable(name)}"), *(f"{value:.4f}" for value in values)))
    return fitted_table(("the same output", "original", "alternative"), rows)


def page(alternatives: Alternatives, intervals: Intervals | None = None, sentence: str | None = None) -> str:
    """A self-contained page with the teaching picture."""
    arrays = Arrays()
    parts = {
        "alternatives": describe_alternatives(alternatives, arrays, intervals, sentence),
        "provenance": dict(alternatives.provenance),
        "leftOut": ["other heads: use thalweg trust without --layer and --head, or thalweg report"],
    }
    other = alternatives.best
    headline = "This attention cannot be replaced." if other is None else f"Different attention: {evidence(other)}."
    return report_page(alternatives.tokens, (), headline, parts, arrays)


def describe_alternatives(
    alternatives: Alternatives, arrays: Arrays, intervals: Intervals | None = None, sentence: str | None = None
) -> dict[str, Any]:
    """The teaching picture as pages read it; `other` is None if attention is determined."""
    described = {
        "layer": alternatives.layer,
        "head": alternatives.head,
        "sentence": sentence,
        "reason": alternatives.missing.get("polytope"),
        "receipt": describe_receipt(alternatives.receipt),
        "other": None,
    }
    if (other := alternatives.best) is None:
        return described
    row, _ = drawn_row(alternatives, other, intervals)
    whole, outputs = replaced(alternatives, other), alternatives.head_output.copy()
    mass = np.zeros(len(alternatives.targets))
    for number, target in enumerate(other.targets):
        place = alternatives.targets.index(target)
        outputs[place], mass[place] = other.head_output[number], other.total_variation[number]
    places = slice(None) if len(alternatives.tokens) <= MAPS_TOKENS else slice(row, row + 1)
    return {
        **described,
        "kind": KINDS["keys" if other is alternatives.keys else "polytope"],
        "targets": list(alternatives.targets[places]),
        "row": row - (places.start or 0),
        "moved": mass[places].tolist(),
        "original": arrays.packed(pack(alternatives.weights[places], np.uint16)),
        "other": arrays.packed(pack(whole[places], np.uint16)),
        "headOutputs": [arrays.packed(pack(rows[places], np.uint16)) for rows in (alternatives.head_output, outputs)],
        "headError": other.head_error,
        "compared": other.compared,
        "names": [printable(name) for name in alternatives.output_names],
        "outputs": [jsonable(values.tolist()) for values in (alternatives.output, other.output)],
        "evidence": evidence(other),
        "proved": other.proved,
        "intervals": [] if intervals is None else describe_intervals(intervals)["rows"],
    }


def describe_intervals(intervals: Intervals) -> dict[str, Any]:
    """Intervals as pages read them: [target, source, weight, low, high] each."""
    places = zip(intervals.targets.tolist(), intervals.sources.tolist(), strict=True)
    figures = zip(intervals.weights.tolist(), intervals.low.tolist(), intervals.high.tolist(), strict=True)
    rows = [[*place, *(round(figure, 5) for figure in row)] for place, row in zip(places, figures, strict=True)]
    return {"layer": intervals.layer, "head": intervals.head, "rows": rows}


def alternatives_figure(alternatives: Alternatives, intervals: Intervals | None = None) -> "Figure":
    """Both maps, the row that moved most in both, with intervals where they exist, and the model's output for both."""
    other = alternatives.best
    if other is None:
        raise InputError(f"no alternative to draw: {alternatives.missing['polytope']}")
    pieces = [label(piece) for piece in alternatives.tokens.pieces]
    targets = [pieces[target] for target in alternatives.targets]
    side = max(2.6, min(5.0, 0.14 * len(pieces) + 1.2))
    figure = new_figure(2 * side + 0.6, side * len(targets) / len(pieces) + 3.4)
    grid = figure.subplots(2, 2, height_ratios=[max(1.2, side * len(targets) / len(pieces) + 0.6), 2.2])
    maps = {"original attention": alternatives.weights, "alternative attention": replaced(alternatives, other)}
    size = max(float(weights.max()) for weights in maps.values())
    for axes, (title, weights) in zip(grid[0], maps.items(), strict=True):
        heat_map(
            figure, axes, weights, targets, pieces, f"{title} of layer {alternatives.layer} head {alternatives.head}"
        )
        axes.images[0].set_clim(0, size)
        axes.tick_params(labelsize=5)
    row, moved = drawn_row(alternatives, other, intervals)
    before, after = alternatives.weights[row], other.weights[moved]
    chosen = _largest(before, after)
    _pairs(grid[1, 0], [pieces[source] for source in chosen], before[chosen], after[chosen])
    ranges = _ranges(intervals, alternatives.targets[row])
    for place, source in enumerate(chosen):
        if source in ranges:
            grid[1, 0].plot([place, place], ranges[source], color="black", linewidth=1, marker="_", markersize=8)
    set_title(grid[1, 0], f"row of ‘{targets[row]}’: {other.total_variation[moved]:.0%} of its attention moved")
    names = [label(name) for name in alternatives.output_names]
    _pairs(grid[1, 1], names, alternatives.output, other.output)
    set_title(grid[1, 1], f"{other.compared}, changed by {other.moved:.0e} of their size")
    return figure


def _pairs(axes: "Axes", names: list[str], before: np.ndarray, after: np.ndarray) -> None:
    """Two bars for each name: original and alternative."""
    places = np.arange(len(names))
    axes.bar(places - 0.2, before, 0.38, color=BLUE, label="original")
    axes.bar(places + 0.2, after, 0.38, color=ORANGE, label="alternative")
    axes.set_xticks(places, names, rotation=40, ha="right", rotation_mode="anchor")
    for text in axes.get_xticklabels():
        text.set_parse_math(False)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.legend(fontsize=7, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
