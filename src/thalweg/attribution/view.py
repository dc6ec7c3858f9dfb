"""Attributions, comparisons and mixing as a person sees them: in a terminal, as a page, as a figure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.attribution.packed import describe, headline, pack_attribution, positions_of
from thalweg.attribution.result import DISTANCES, Attribution, Comparison, Mixing
from thalweg.drawing.figures import (
    BLUE,
    MAX_BARS,
    ORANGE,
    heat_map,
    label,
    map_size,
    new_figure,
    set_title,
    strips,
    tick_labels,
)
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays
from thalweg.drawing.terminal import SHADES, Fitted, printable, receipt_text, shade
from thalweg.methods.registry import list_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS = (20, 8, 1)  # characters of the longest bar, for wide and narrow windows


def page(attributions: Sequence[Attribution]) -> str:
    """A self-contained page about attributions of the same targets."""
    first, arrays = attributions[0], Arrays()
    targets = positions_of(first)
    packed = [pack_attribution(attribution, targets) for attribution in attributions]
    parts = {
        "prediction": None if first.prediction is None else printable(first.prediction),
        "methods": [describe(entry, arrays) for entry in packed],
        "provenance": dict(first.provenance),
        "leftOut": ["heads, their certificate and mixing: thalweg report shows them"],
    }
    opened = targets[:1]
    return report_page(first.sources, opened, headline(packed, first.sources, opened, first.prediction), parts, arrays)


def attribution_text(attribution: Attribution) -> RenderableType:
    parts: list[RenderableType] = [_heading(attribution)]
    for row in range(len(attribution.targets)):
        if len(attribution.targets) > 1:
            parts.append(Text(f"\ntarget {row}: {printable(attribution.targets.pieces[row])}", "bold"))
        parts.append(shaded(attribution, row))
        parts.append(
            Fitted(*(_largest(attribution, row, bar) for bar in BARS))
            if len(attribution.targets) == 1
            else _few(attribution, row)
        )
    parts.append(receipt_text(attribution.receipt, attribution.row_sum_error))
    return Group(*parts)


def comparison_text(comparison: Comparison) -> RenderableType:
    first = comparison.attributions[0]
    parts: list[RenderableType] = [_heading(first, method=False)]
    for one in comparison.attributions:
        parts.append(Text(f"\n{one.method}", "bold"))
        for row in range(len(one.targets)):
            parts += [shaded(one, row), _few(one, row)]
        parts.append(receipt_text(one.receipt, one.row_sum_error))
    return Group(*parts, Text(), _agreement(comparison))


def _agreement(comparison: Comparison) -> Fitted:
    """Methods against methods; by number where their names would not fit, and as a list where numbers would not."""
    names, agreement = comparison.methods, comparison.agreement()
    cells = [["–" if np.isnan(v) else f"{v:+.2f}" for v in row] for row in agreement]
    wide = Table("rank agreement", *names, box=None, header_style="dim")
    narrow = Table(
        "", "rank agreement", *(str(number + 1) for number in range(len(names))), box=None, header_style="dim"
    )
    pairs = Text("rank agreement", "dim")
    for number, (name, row) in enumerate(zip(names, cells, strict=True)):
        wide.add_row(name, *row)
        narrow.add_row(str(number + 1), name, *row)
        pairs.append(
            "".join(f"\n{name}, {other} {cell}" for other, cell in zip(names[:number], row, strict=False)), "not dim"
        )
    return Fitted(wide, narrow, pairs)


def mixing_text(mixing: Mixing) -> RenderableType:
    where = "from the embeddings to each layer" if mixing.start == "embeddings" else "in each layer"
    heading = Text(f"how tokens mix {where}", "bold")
    texts = "one text" if mixing.texts == 1 else f"{mixing.texts} texts"
    heading.append(f"\nmodel {printable(mixing.provenance['model'])}   {texts}, {mixing.tokens} tokens", "dim")
    parts: list[RenderableType] = [heading]
    for method, found in mixing.figures.items():
        before = {"own": found.own, "not own": found.not_own}
        near = dict(zip(DISTANCES, found.by_distance.T, strict=True))
        after = dict(zip(("special", "punct.", "content"), found.by_kind.T, strict=True))
        whole = _shares(method, {**before, **near, **after})
        parts += [Text(), Fitted(whole, Group(_shares(method, {**before, **after}), _shares(None, near)))]
        parts.append(receipt_text(found.receipt))
    meaning = (
        "\nin %, by layer. own: what a token gives itself; not own: tokens with a larger contributor than themselves; "
        "then what neighbours give, by distance; then what special tokens, punctuation and content tokens give"
    )
    return Group(*parts, Text(meaning, "dim"))


def _shares(title: str | None, columns: Mapping[str, np.ndarray]) -> Table:
    """Shares in per cent, a row for each layer."""
    table = Table("", *columns, box=None, header_style="dim", padding=(0, 1, 0, 0), title=title, title_justify="left")
    for number, shares in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(str(number), *(f"{100 * share:.1f}" for share in shares))
    return table


def shaded(attribution: Attribution, row: int) -> Text:
    """The sources in order, each on a background as strong as its score."""
    scores = attribution.scores[row]
    largest = max(float(np.abs(scores).max()), 1e-12)
    text = Text()
    for piece, score in zip(attribution.sources.pieces, scores, strict=True):
        strength = round(SHADES * abs(float(score)) / largest)
        text.append(printable(piece), shade(strength, score < 0))
        text.append(" ")
    return text


def _heading(attribution: Attribution, method: bool = True) -> Text:
    text = Text()
    if method:
        text.append(attribution.method, "bold")
        known = list_methods().get(attribution.method)  # a saved result may come from a method of somebody else
        usual = {entry.name: entry.default for entry in known.options} if known else {}
        chosen = ", ".join(f"{k}={v}" for k, v in attribution.params.items() if v != usual.get(k))
        text.append(f" ({chosen})\n" if chosen else "\n", "dim")
    text.append(f"model {printable(attribution.provenance['model'])}", "dim")
    if attribution.prediction is not None:
        text.append("   prediction ")
        text.append(printable(attribution.prediction), "bold")
        if len(attribution.targets) == 1:
            text.append(f"   read at {printable(attribution.targets.pieces[0])}")
    elif len(attribution.targets) == 1:
        text.append(f"   target {printable(attribution.targets.pieces[0])}")
    return text


def _largest(attribution: Attribution, row: int, longest: int) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1))
    largest = float(np.abs(attribution.scores[row]).max()) or 1.0
    for piece, score in attribution.top(8, row):
        bar = "█" * max(1, round(longest * abs(score) / largest)) if score else ""
        table.add_row(Text(printable(piece)), f"{score:.3f}", Text(bar, "blue" if score >= 0 else "dark_orange"))
    return table


def _few(attribution: Attribution, row: int) -> Text:
    """The largest sources in one line of numbers, for those who see no colours."""
    return Text("  ".join(f"{printable(piece)} {score:.3f}" for piece, score in attribution.top(4, row)), "dim")


def attribution_figure(attribution: Attribution) -> "Figure":
    labels = [label(piece) for piece in attribution.sources.pieces]
    if len(attribution.targets) > 1:
        figure = new_figure(*map_size(attribution.scores))
        heat_map(figure, figure.subplots(), attribution.scores, attribution.targets.pieces, labels, attribution.method)
        return figure
    scores = attribution.scores[0]
    chosen = np.sort(np.argsort(-np.abs(scores), kind="stable")[:MAX_BARS])
    figure = new_figure(max(3.3, 0.22 * len(chosen) + 0.8), 2.4)
    axes = figure.subplots()
    errors = None if attribution.errors is None else attribution.errors[0, chosen]
    colours = [BLUE if score >= 0 else ORANGE for score in scores[chosen]]
    axes.bar(range(len(chosen)), scores[chosen], color=colours, width=0.8, yerr=errors, error_kw={"lw": 0.8})
    axes.axhline(0, color="black", lw=0.6)
    tick_labels(axes, "x", [labels[i] for i in chosen])
    axes.set_ylabel("score")
    axes.spines[["top", "right"]].set_visible(False)
    left = len(scores) - len(chosen)
    set_title(axes, about(attribution) + (f"; {left} smaller ones left out" if left else ""))
    return figure


def comparison_figure(comparison: Comparison) -> "Figure":
    first = comparison.attributions[0]
    if len(first.targets) == 1:
        rows = {one.method: one.scores[0] for one in comparison.attributions}
        return strips(rows, first.sources.pieces, about(first, method=False), comparison.agreement())
    width, height = map_size(first.scores)
    figure = new_figure(width * len(comparison.methods), height)
    panels = figure.subplots(1, len(comparison.methods), squeeze=False)[0]
    for axes, one in zip(panels, comparison.attributions, strict=True):
        heat_map(figure, axes, one.scores, one.targets.pieces, one.sources.pieces, one.method)
    return figure


def about(attribution: Attribution, method: bool = True) -> str:
    what = attribution.targets.pieces[0] if attribution.prediction is None else f"prediction {attribution.prediction}"
    return f"{attribution.method}: {label(what, 60)}" if method else label(what, 60)
