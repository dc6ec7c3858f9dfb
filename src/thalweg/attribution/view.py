"""Attributions, comparisons and mixing in a terminal, as an HTML page and as a figure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from thalweg.attribution.mixing_result import DISTANCES, Mixing
from thalweg.attribution.packed import describe, describe_answer, evidence, headline, pack_attribution
from thalweg.attribution.result import Attribution, Comparison
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
from thalweg.drawing.terminal import SHADES, Fitted, receipt_text, shade, shown
from thalweg.methods.registry import list_methods
from thalweg.printable import printable, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAR_CHARACTERS = (20, 8, 1)  # of the longest bar, for wide and narrow windows
SHOWN_SOURCES = 8  # of a single target
SHOWN_SOURCES_PER_ROW = 4  # of each of several targets
ABOUT_CHARACTERS = 60


def page(attributions: Sequence[Attribution]) -> str:
    """A self-contained page with attributions of the same targets."""
    first, arrays = attributions[0], Arrays()
    packed = [pack_attribution(attribution) for attribution in attributions]
    parts = {
        "answer": describe_answer(first.answer),
        "methods": [describe(entry, arrays) for entry in packed],
        "provenance": dict(first.provenance),
        "leftOut": ["heads, their certificate and mixing: use thalweg report"],
    }
    initial = first.positions[:1]
    title = headline(packed, first.sources, initial, first.answer)
    return report_page(first.sources, initial, title, parts, arrays)


@shown
def attribution_text(attribution: Attribution) -> RenderableType:
    parts: list[RenderableType] = [_heading(attribution)]
    for row in range(len(attribution.targets)):
        if len(attribution.targets) > 1:
            parts.append(Text(f"\ntarget {row}: {printable(attribution.targets.pieces[row])}", "bold"))
        parts += [*_evidence(attribution, row), shaded(attribution, row)]
        parts.append(
            Fitted(*(_bars(attribution, row, longest) for longest in BAR_CHARACTERS))
            if len(attribution.targets) == 1
            else _largest_line(attribution, row)
        )
    parts.append(receipt_text(attribution.receipt, attribution.row_sum_error))
    return Group(*parts)


@shown
def comparison_text(comparison: Comparison) -> RenderableType:
    first = comparison.attributions[0]
    parts: list[RenderableType] = [_heading(first, method=False)]
    for attribution in comparison.attributions:
        parts.append(Text(f"\n{printable(attribution.method)}", "bold"))
        for row in range(len(attribution.targets)):
            parts += [*_evidence(attribution, row), shaded(attribution, row), _largest_line(attribution, row)]
        parts.append(receipt_text(attribution.receipt, attribution.row_sum_error))
    return Group(*parts, Text(), _agreement(comparison))


def _agreement(comparison: Comparison) -> Fitted:
    """Methods against methods; with numbers instead of names in a narrow window, and as a list in a narrower one."""
    names, agreement = [Text(printable(name)) for name in comparison.methods], comparison.agreement()
    cells = [["–" if np.isnan(v) else f"{v:+.2f}" for v in row] for row in agreement]
    wide = Table("rank agreement", *map(Column, names), box=None, header_style="dim")
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


@shown
def mixing_text(mixing: Mixing) -> RenderableType:
    extent = "from the embeddings to each layer" if mixing.start == "embeddings" else "in each layer"
    heading = Text(f"mixing of tokens {extent}", "bold")
    texts = "one text" if mixing.texts == 1 else f"{mixing.texts} texts"
    heading.append(f"\nmodel {printable(mixing.provenance['model'])}   {texts}, {mixing.tokens} tokens", "dim")
    parts: list[RenderableType] = [heading]
    for name, figures in mixing.figures.items():
        method = Text(printable(name))
        before = {"own": figures.own, "not own": figures.not_own}
        near = dict(zip(DISTANCES, figures.by_distance.T, strict=True))
        after = dict(zip(("special", "punct.", "content"), figures.by_kind.T, strict=True))
        wide = _shares(method, {**before, **near, **after})
        parts += [Text(), Fitted(wide, Group(_shares(method, {**before, **after}), _shares(None, near)))]
        parts.append(receipt_text(figures.receipt))
    meaning = (
        "\nin %, by layer. own: a token's own share; not own: tokens whose largest contributor is another token; "
        "then shares of neighbours by distance; then shares of special tokens, punctuation and content tokens"
    )
    return Group(*parts, Text(meaning, "dim"))


def _shares(title: Text | None, columns: Mapping[str, np.ndarray]) -> Table:
    """Shares in per cent, one row per layer."""
    table = Table("", *columns, box=None, header_style="dim", padding=(0, 1, 0, 0), title=title, title_justify="left")
    for number, shares in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(str(number), *(f"{100 * share:.1f}" for share in shares))
    return table


def shaded(attribution: Attribution, row: int) -> Text:
    """The sources in order, with the strength of the background showing the score."""
    scores = attribution.scores[row].tolist()
    largest = max(1e-12, *map(abs, scores))
    text = Text()
    for piece, score in zip(attribution.sources.labels(), scores, strict=True):
        strength = round(SHADES * abs(score) / largest)
        text.append(printable(piece), shade(strength, score < 0))
        text.append(" ")
    return text


def _heading(attribution: Attribution, method: bool = True) -> Text:
    text = Text()
    if method:
        text.append(printable(attribution.method), "bold")
        known = list_methods().get(attribution.method)  # None if the method is not installed
        defaults = {entry.name: entry.default for entry in known.options} if known else {}
        chosen = ", ".join(visible(f"{k}={v}") for k, v in attribution.params.items() if v != defaults.get(k))
        text.append(f" ({chosen})\n" if chosen else "\n", "dim")
    text.append(f"model {printable(attribution.provenance['model'])}", "dim")
    if attribution.answer is not None:
        text.append("   prediction ")
        text.append(printable(str(attribution.answer.outcomes[0])), "bold")
        if attribution.answer.runners_up:
            others = ", ".join(map(str, attribution.answer.runners_up))
            text.append(f" before {printable(others)}")
        if len(attribution.targets) == 1:
            text.append(f"   read at {printable(attribution.targets.pieces[0])}")
    elif len(attribution.targets) == 1:
        text.append(f"   target {printable(attribution.targets.labels()[0])}")
    for warning in attribution.sources.warnings():
        text.append(f"\nwarning: {printable(warning)}", "yellow")
    return text


def _evidence(attribution: Attribution, row: int) -> Iterator[Text]:
    """What speaks for the explained output and what against it, if scores are signed."""
    scores, explained, foil = attribution.scores[row], attribution.explained, attribution.foil
    if (scores < 0).any():
        name = printable(attribution.targets.labels()[row] if explained is None else str(explained))
        name += "" if foil is None else f" rather than {printable(str(foil))}"
        yield Text(printable(evidence(scores, attribution.sources.labels(), name)), "bold")


def _bars(attribution: Attribution, row: int, longest: int) -> Table:
    """The largest sources with bars of up to `longest` characters."""
    table = Table(box=None, show_header=False, padding=(0, 1))
    largest = float(np.abs(attribution.scores[row]).max()) or 1.0
    for piece, score in attribution.top(SHOWN_SOURCES, row):
        bar = "█" * max(1, round(longest * abs(score) / largest)) if score else ""
        table.add_row(Text(printable(piece)), f"{score:.3f}", Text(bar, "blue" if score >= 0 else "dark_orange"))
    return table


def _largest_line(attribution: Attribution, row: int) -> Text:
    """The largest sources as one line of numbers, readable without colours."""
    largest = attribution.top(SHOWN_SOURCES_PER_ROW, row)
    return Text("  ".join(f"{printable(piece)} {score:.3f}" for piece, score in largest), "dim")


def attribution_figure(attribution: Attribution) -> "Figure":
    labels = [label(piece) for piece in attribution.sources.labels()]
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
    set_title(axes, about(attribution) + (f"; {left} smaller ones omitted" if left else ""))
    return figure


def comparison_figure(comparison: Comparison) -> "Figure":
    first = comparison.attributions[0]
    if len(first.targets) == 1:
        rows = {attribution.method: attribution.scores[0] for attribution in comparison.attributions}
        return strips(rows, first.sources.pieces, about(first, method=False), comparison.agreement())
    width, height = map_size(first.scores)
    figure = new_figure(width * len(comparison.methods), height)
    panels = figure.subplots(1, len(comparison.methods), squeeze=False)[0]
    for axes, entry in zip(panels, comparison.attributions, strict=True):
        heat_map(figure, axes, entry.scores, entry.targets.pieces, entry.sources.pieces, entry.method)
    return figure


def about(attribution: Attribution, method: bool = True) -> str:
    """The title of a figure: the method, and the prediction or token that it explains."""
    answer = attribution.answer
    target = attribution.targets.labels()[0] if answer is None else f"prediction {answer.outcomes[0]}"
    title = label(target, ABOUT_CHARACTERS)
    return f"{attribution.method}: {title}" if method else title
