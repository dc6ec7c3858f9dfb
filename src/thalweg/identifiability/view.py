"""Certificates, intervals and length curves in a terminal, as an HTML page and as a figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.figures import new_figure, sequential, set_title
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays, describe_receipt
from thalweg.drawing.terminal import Fitted, fitted_table, receipt_text, shown
from thalweg.identifiability.alternatives_view import alternatives_text, describe_alternatives
from thalweg.identifiability.head_result import Intervals
from thalweg.identifiability.length_result import LengthCurve
from thalweg.identifiability.result import Certificate, Head, HeadReport, Verdict, share
from thalweg.jsonable import jsonable
from thalweg.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS: dict[Verdict, tuple[str, str]] = {
    "identifiable": ("●", "green"),
    "locally unique given the keys": ("◐", "yellow"),
    "not identifiable": ("○", "red"),
}
HEADS_WITH_FIGURES = 12  # a row of more heads shows marks only
BAR_CHARACTERS = 30  # for the weights from 0 to 1
MISLEADING_HEADS = 3
MISLEADING_COLUMNS = ("head", "can move", "in one row", "rows unique", "or given the keys", "null share")
SHOWN_KINDS = 3  # of tokens whose share changes most
SHOWN_CHANGE = 0.005  # smallest change of a share that two decimals show


@shown
def certificate_text(certificate: Certificate) -> RenderableType:
    heading = Text(f"model {printable(certificate.provenance['model'])}   {len(certificate.tokens)} tokens", "dim")
    legend = Text("by layer and head; figures: attention that can move without any effect, at least\n", "dim")
    for verdict, (mark, style) in MARKS.items():
        legend.append(f"{mark} ", style)
        legend.append(f"{verdict}   ", "dim")
    parts: list[RenderableType] = [heading, Text(certificate.summary()), Text(), legend, _by_layer(certificate)]
    misleading = certificate.most_misleading(MISLEADING_HEADS)
    if misleading:
        parts.append(Text("\nmost misleading heads", "bold"))
        parts += [_misleading(misleading), *(_head_text(head) for head in misleading)]
    mixed = [layer for layer in certificate.layers if not layer.separable]
    if mixed:
        parts.append(Text("\nlayers whose output does not separate their heads", "bold"))
        parts += [Text(layer.sentence()) for layer in mixed]
    parts.append(receipt_text(certificate.receipt))
    if certificate.example is not None:
        parts += [Text(), alternatives_text(certificate.example)]
    return Group(*parts)


@shown
def head_report_text(report: HeadReport) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 1))
    for name, figure in _figures(report.head):
        table.add_row(name, figure)
    return Group(
        _head_text(report.head),
        table,
        Text(),
        intervals_text(report.intervals),
        Text(),
        alternatives_text(report.alternatives, report.intervals),
    )


@shown
def intervals_text(intervals: Intervals) -> RenderableType:
    title = f"range of weights of layer {intervals.layer} head {intervals.head} with the same output"
    names = ("target", "source", "weight", "range")
    wide = Table(*names, "", box=None, header_style="dim", padding=(0, 1))
    narrow = Table(*names[1:], box=None, header_style="dim", padding=(0, 1))
    pieces = intervals.tokens.pieces
    columns = (intervals.targets, intervals.sources, intervals.weights, intervals.low, intervals.high)
    last = None
    for target, source, weight, low, high in zip(*columns, strict=True):
        row, column = (Text(printable(pieces[place])) for place in (target, source))
        figures = (f"{weight:.3f}", f"{low:.3f} to {high:.3f}")
        wide.add_row(row, column, *figures, _bar(weight, low, high))
        if target != last:
            narrow.add_row(Text(f"of {row}", "dim"))
            last = target
        narrow.add_row(column, *figures)
    return Group(Text(title, "bold"), Fitted(wide, narrow), receipt_text(intervals.receipt))


@shown
def length_curve_text(curve: LengthCurve) -> RenderableType:
    table = Table(
        "tokens",
        "pieces",
        "rank",
        "no effect",
        "(rows sum to 1)",
        "Pearson",
        "Spearman",
        "can move",
        "identifiable",
        "locally unique",
        "rows",
        "rows locally",
        box=None,
        header_style="dim",
    )
    for mean, count in curve.lengths():
        table.add_row(
            str(mean.tokens),
            str(count),
            f"{mean.rank:.1f}",
            *(f"{part:.1%}" for part in (mean.null_share, mean.null_share_row_sum)),
            *(f"{value:.3f}" for value in (mean.pearson, mean.spearman)),
            *(f"{part:.0%}" for part in (mean.movable, mean.identifiable, mean.locally_unique)),
            *(f"{part:.1%}" for part in (mean.rows_identifiable, mean.rows_locally_unique)),
        )
    return Group(Text("identifiability against length, means over all heads", "bold"), table)


def _by_layer(certificate: Certificate) -> Fitted:
    """Marks with figures, or marks alone; in a very narrow window, marks without columns."""
    rows = [[head for head in certificate.heads if head.layer == layer] for layer in range(len(certificate.blocks))]
    most = max(len(row) for row in rows)
    tables = [
        Table("", *(str(head) for head in range(most)), box=None, header_style="dim", padding=(0, 1, 0, 0))
        for _ in range(2)
    ]
    lines = Text()
    for layer, row in enumerate(rows):
        marks = [MARKS[head.verdict] for head in row]
        figures = [f"{head.movable:3.0%}" if most <= HEADS_WITH_FIGURES else "" for head in row]
        name = Text(str(layer), "dim")
        tables[0].add_row(name, *(Text(m + figure, style) for (m, style), figure in zip(marks, figures, strict=True)))
        tables[1].add_row(name, *(Text(*mark) for mark in marks))
        lines.append(f"{layer} ", "dim")
        for mark in marks:
            lines.append(*mark)
        lines.append("\n")
    return Fitted(*tables, lines)


def _misleading(heads: Sequence[Head]) -> Fitted:
    return fitted_table(MISLEADING_COLUMNS, [misleading_row(head) for head in heads])


def misleading_row(head: Head) -> tuple[str, ...]:
    """The columns of `MISLEADING_COLUMNS`: the mass that ranks heads, verdicts on rows, and the null share."""
    unique, local, _ = head.row_counts().values()
    return (
        f"{head.layer}.{head.head}",
        f"{head.movable:.0%}",
        f"{head.movable_most:.0%}",
        share(unique, head.queries),
        "unknown" if head.rows_determined_given_keys is None else share(unique + local, head.queries),
        f"{head.null_share_row_sum:.0%}",
    )


def _head_text(head: Head) -> Text:
    """The sentence, and the kinds of tokens whose share of attention changes most without the null-space component."""
    mark, style = MARKS[head.verdict]
    text = Text()
    text.append(f"{mark} ", style)
    text.append(head.sentence())
    changes = sorted(head.received.items(), key=lambda item: -abs(item[1].raw - item[1].effective_row_sum))
    moved = [
        f"{printable(kind)} {shares.raw:.2f} → {shares.effective_row_sum:.2f}"
        for kind, shares in changes[:SHOWN_KINDS]
        if abs(shares.raw - shares.effective_row_sum) >= SHOWN_CHANGE
    ]
    if moved:
        text.append(f"\n  raw → effective: {', '.join(moved)}; rank correlation {head.spearman:.2f}", "dim")
    return text


def _figures(head: Head) -> list[tuple[str, str]]:
    """The figures of a head, each with the freedom that it assumes."""

    def known(value: int | None) -> str:
        return "unknown" if value is None else str(value)

    clear = "no singular value counts as zero" if np.isinf(head.gap) else f"gap {head.gap:.1e} at {head.cut:.0e}"
    rows = (
        "unknown" if head.rows_determined_given_keys is None else share(head.rows_determined_given_keys, head.queries)
    )
    margin = "" if head.margin_given_keys is None else f" (median margin {head.margin_given_keys:.1e} × the cut)"
    return [
        ("visible tokens, key size, value size", f"{head.keys}, {known(head.key_size)}, {head.value_size}"),
        ("rank of T, of [T, 1]", f"{head.rank}, {head.rank_with_ones} ({clear})"),
        ("smallest singular value that counts", f"{head.margin:.1e} × the cut"),
        ("rows uniquely determined", share(head.rows_determined, head.queries)),
        ("rows locally unique given the keys", f"{rows}{margin}"),
        (
            "mass that can move",
            f"at least {head.movable:.1%} (mean of {head.rows_sampled} rows), {head.movable_most:.1%} in the best row",
        ),
        ("free dimensions of a row", f"{head.null_dimension} (any numbers)"),
        ("", f"{head.ambiguity} (any distribution)"),
        ("", f"{known(head.ambiguity_given_keys)} (softmax of these keys, small query perturbations)"),
        ("free dimensions of the head", f"{known(head.ambiguity_keys_free)} (queries and keys free, generic count)"),
        ("share without effect", f"{head.null_share:.1%}, {head.null_share_row_sum:.1%} with rows summing to one"),
        ("Pearson, Spearman raw to effective", f"{head.pearson:.3f}, {head.spearman:.3f}"),
    ]


def _bar(weight: float, low: float, high: float) -> Text:
    """From 0 to 1: the interval as a line, the weight as a mark on it."""
    places = np.linspace(0, 1, BAR_CHARACTERS)
    half = 0.5 / BAR_CHARACTERS
    line = ["─" if low - half <= place <= high + half else " " for place in places]
    line[int(np.abs(places - weight).argmin())] = "┃"
    return Text("".join(line), "blue")


def page(certificate: Certificate) -> str:
    """A self-contained page with a certificate alone."""
    arrays = Arrays()
    parts = {
        "certificate": describe_certificate(certificate),
        "alternatives": describe_example(certificate, arrays),
        "provenance": dict(certificate.provenance),
        "leftOut": ["explanations and maps of heads: use thalweg report"],
    }
    counts, total = certificate.counts(), len(certificate.heads)
    headline = f"Attention is uniquely determined in {counts['identifiable']} of {total} heads."
    return report_page(certificate.tokens, (), headline, parts, arrays)


def describe_example(
    certificate: Certificate | None, arrays: Arrays, intervals: Sequence[Intervals] = ()
) -> dict[str, Any] | None:
    """The teaching picture of the most misleading head, if there is one, with its intervals where they exist."""
    if certificate is None or certificate.example is None:
        return None
    example = certificate.example
    sentence = certificate.head(example.layer, example.head).sentence()
    own = next((entry for entry in intervals if (entry.layer, entry.head) == (example.layer, example.head)), None)
    return describe_alternatives(example, arrays, own, sentence)


def describe_certificate(certificate: Certificate) -> dict[str, Any]:
    """A certificate as pages read it."""
    return {
        "summary": certificate.summary(),
        "counts": dict(certificate.counts()),
        "localRows": share(*_at_least_local(certificate)),
        "misleading": {
            "columns": MISLEADING_COLUMNS,
            "rows": [misleading_row(head) for head in certificate.most_misleading()],
        },
        "heads": [
            {
                "layer": head.layer,
                "head": head.head,
                "verdict": head.verdict,
                "sentence": head.sentence(),
                "movable": head.movable,
                "nullShare": jsonable(head.null_share_row_sum),
                "rank": head.rank,
                "ambiguity": head.ambiguity,
                "longest": head.longest,
            }
            for head in certificate.heads
        ],
        "layers": [layer.sentence() for layer in certificate.layers if not layer.separable],
        "receipt": describe_receipt(certificate.receipt),
    }


def _at_least_local(certificate: Certificate) -> tuple[int, int]:
    """The number of rows that are at least locally unique given the keys, and of all rows."""
    unique, local, rest = certificate.row_counts().values()
    return unique + local, unique + local + rest


def certificate_figure(certificate: Certificate) -> "Figure":
    layers = len(certificate.blocks)
    heads = max(head.head for head in certificate.heads) + 1
    shares = np.full((layers, heads), np.nan)
    for head in certificate.heads:
        shares[head.layer, head.head] = head.movable
    figure = new_figure(0.42 * heads + 1.6, 0.32 * layers + 1.3)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap=sequential(), vmin=0, vmax=max(0.01, float(np.nanmax(shares))), aspect="auto")
    for head in certificate.heads:
        front = "white" if shares[head.layer, head.head] > 0.6 * np.nanmax(shares) else "black"
        axes.text(head.head, head.layer, MARKS[head.verdict][0], ha="center", va="center", color=front, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_xticks(range(heads))
    axes.set_yticks(range(layers))
    figure.colorbar(image, ax=axes, label="mass that can move, at least")
    set_title(axes, "● identifiable   ◐ locally unique given the keys   ○ not")
    return figure
