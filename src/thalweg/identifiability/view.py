"""Certificates, intervals and alternatives as a person sees them: in a terminal, as a page, as a figure."""

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.figures import new_figure, sequential, set_title
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays, describe_receipt
from thalweg.drawing.terminal import Fitted, printable, receipt_text
from thalweg.identifiability.result import (
    Alternative,
    Alternatives,
    Certificate,
    Head,
    HeadReport,
    Intervals,
    LengthCurve,
    Verdict,
)
from thalweg.jsonable import jsonable

MARKS: dict[Verdict, tuple[str, str]] = {
    "identifiable": ("●", "green"),
    "identifiable given the keys": ("◐", "yellow"),
    "not identifiable": ("○", "red"),
}
if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 12  # heads whose figures fit beside each other
BAR = 30  # characters for the weights from 0 to 1


def certificate_text(certificate: Certificate) -> RenderableType:
    heading = Text(f"model {printable(certificate.provenance['model'])}   {len(certificate.tokens)} tokens", "dim")
    legend = Text("by layer and head; figures: share of attention, by norm, that has no effect\n", "dim")
    for verdict, (mark, style) in MARKS.items():
        legend.append(f"{mark} ", style)
        legend.append(f"{verdict}   ", "dim")
    parts: list[RenderableType] = [heading, Text(certificate.summary()), Text(), legend, _by_layer(certificate)]
    misleading = certificate.most_misleading(3)
    if misleading:
        parts.append(Text("\nmost misleading heads", "bold"))
        parts += [_described(one) for one in misleading]
    mixed = [one for one in certificate.layers if not one.separable]
    if mixed:
        parts.append(Text("\nheads that the layer's output does not tell apart", "bold"))
        parts += [Text(one.sentence()) for one in mixed]
    return Group(*parts, receipt_text(certificate.receipt))


def head_report_text(report: HeadReport) -> RenderableType:
    head = report.head
    table = Table(box=None, show_header=False, padding=(0, 1))
    for name, figure in _figures(head):
        table.add_row(name, figure)
    return Group(
        _described(head),
        table,
        Text(),
        intervals_text(report.intervals),
        Text(),
        alternatives_text(report.alternatives),
    )


def intervals_text(intervals: Intervals) -> RenderableType:
    title = f"what weights of layer {intervals.layer} head {intervals.head} could be, with the same output"
    names = ("target", "source", "weight", "could be")
    wide = Table(*names, "", box=None, header_style="dim", padding=(0, 1))
    narrow = Table(*names[1:], box=None, header_style="dim", padding=(0, 1))
    pieces = intervals.tokens.pieces
    columns = (intervals.targets, intervals.sources, intervals.weights, intervals.low, intervals.high)
    last = None
    for target, source, weight, low, high in zip(*columns, strict=True):
        row, giver = (Text(printable(pieces[place])) for place in (target, source))
        figures = (f"{weight:.3f}", f"{low:.3f} to {high:.3f}")
        wide.add_row(row, giver, *figures, _bar(weight, low, high))
        if target != last:
            narrow.add_row(Text(f"of {row}", "dim"))
            last = target
        narrow.add_row(giver, *figures)
    return Group(Text(title, "bold"), Fitted(wide, narrow), receipt_text(intervals.receipt))


def alternatives_text(found: Alternatives) -> RenderableType:
    parts: list[RenderableType] = [Text("other attention with the same output", "bold")]
    for name, title in (("polytope", "any distribution"), ("keys", "softmax of the head's own keys")):
        one: Alternative | None = getattr(found, name)
        parts.append(Text(f"{title}: {found.missing[name] if one is None else _said(one)}"))
    return Group(*parts)


def length_curve_text(curve: LengthCurve) -> RenderableType:
    names = (
        "tokens",
        "pieces",
        "rank",
        "no effect",
        "(rows sum to 1)",
        "Pearson",
        "Spearman",
        "readable",
        "given keys",
    )
    table = Table(*names, box=None, header_style="dim")
    for mean, count in curve.lengths():
        shares = (mean.null_share, mean.null_share_row_sum)
        table.add_row(
            str(mean.tokens),
            str(count),
            f"{mean.rank:.1f}",
            *(f"{share:.1%}" for share in shares),
            *(f"{value:.3f}" for value in (mean.pearson, mean.spearman)),
            *(f"{share:.0%}" for share in (mean.readable, mean.readable_given_keys)),
        )
    return Group(Text("attention against length, means over all heads", "bold"), table)


def _by_layer(certificate: Certificate) -> Fitted:
    """Marks with figures, or marks alone; where even they do not fit, as many heads in a line as do."""
    rows = [[one for one in certificate.heads if one.layer == layer] for layer in range(len(certificate.blocks))]
    most = max(len(row) for row in rows)
    tables = [
        Table("", *(str(head) for head in range(most)), box=None, header_style="dim", padding=(0, 1, 0, 0))
        for _ in range(2)
    ]
    lines = Text()
    for layer, row in enumerate(rows):
        marks = [MARKS[one.verdict] for one in row]
        figures = [f"{one.null_share_row_sum:3.0%}" if most <= WIDE else "" for one in row]
        name = Text(str(layer), "dim")
        tables[0].add_row(name, *(Text(m + figure, style) for (m, style), figure in zip(marks, figures, strict=True)))
        tables[1].add_row(name, *(Text(*mark) for mark in marks))
        lines.append(f"{layer} ", "dim")
        for mark in marks:
            lines.append(*mark)
        lines.append("\n")
    return Fitted(*tables, lines)


def _described(head: Head) -> Text:
    """The sentence, and which kinds of tokens get less or more than it looks."""
    mark, style = MARKS[head.verdict]
    text = Text()
    text.append(f"{mark} ", style)
    text.append(head.sentence())
    changes = sorted(head.received.items(), key=lambda item: -abs(item[1].raw - item[1].effective_row_sum))
    moved = [
        f"{printable(kind)} {one.raw:.2f} → {one.effective_row_sum:.2f}"
        for kind, one in changes[:3]
        if abs(one.raw - one.effective_row_sum) >= 0.005
    ]
    if moved:
        text.append(f"\n  raw → effective: {', '.join(moved)}; rank correlation {head.spearman:.2f}", "dim")
    return text


def _figures(head: Head) -> list[tuple[str, str]]:
    """What was measured, each with the freedom that it assumes."""

    def known(value: int | None) -> str:
        return "unknown" if value is None else str(value)

    clear = "no singular value counts as zero" if np.isinf(head.gap) else f"gap {head.gap:.1e} at {head.cut:.0e}"
    return [
        ("visible tokens, key size, value size", f"{head.keys}, {known(head.key_size)}, {head.value_size}"),
        ("rank of T, of [T, 1]", f"{head.rank}, {head.rank_with_ones} ({clear})"),
        ("free dimensions of a row", f"{head.null_dimension} (any numbers)"),
        ("", f"{head.ambiguity} (any distribution)"),
        ("", f"{known(head.ambiguity_given_keys)} (softmax of these keys, query moved a little)"),
        (
            "free dimensions of the head",
            f"{known(head.ambiguity_keys_free)} (queries and keys anything, generic count)",
        ),
        ("share without effect", f"{head.null_share:.1%}, {head.null_share_row_sum:.1%} with rows summing to one"),
        ("Pearson, Spearman raw to effective", f"{head.pearson:.3f}, {head.spearman:.3f}"),
    ]


def _bar(weight: float, low: float, high: float) -> Text:
    """From 0 to 1: the interval as a line, the weight as a mark on it."""
    places = np.linspace(0, 1, BAR)
    line = ["─" if low - 0.5 / BAR <= place <= high + 0.5 / BAR else " " for place in places]
    line[int(np.abs(places - weight).argmin())] = "┃"
    return Text("".join(line), "blue")


def _said(one: Alternative) -> str:
    mass = one.total_variation
    proof = (
        ""
        if one.proved
        else ". NOT PROVED: the output moved"
        if one.moved > one.allowed
        else ". This proves nothing: rounding hides from the model what this head attends to"
    )
    return (
        f"in {len(mass)} rows up to {mass.max():.0%} of the mass can move (mean {mass.mean():.0%}). Run with it, the "
        f"model's {one.compared} move by {one.moved:.0e} of their size, where rounding explains {one.allowed:.0e}; "
        f"moved as far at random, by {one.control:.0e}{proof}"
    )


def page(certificate: Certificate) -> str:
    """A self-contained page about a certificate alone."""
    parts = {
        "certificate": describe_certificate(certificate),
        "provenance": dict(certificate.provenance),
        "leftOut": ["explanations and maps of heads: thalweg report shows them"],
    }
    counts, total = certificate.counts(), len(certificate.heads)
    headline = f"Attention is uniquely determined in {counts['identifiable']} of {total} heads."
    return report_page(certificate.tokens, (), headline, parts, Arrays())


def describe_certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "summary": certificate.summary(),
        "counts": dict(certificate.counts()),
        "heads": [
            {
                "layer": one.layer,
                "head": one.head,
                "verdict": one.verdict,
                "sentence": one.sentence(),
                "nullShare": jsonable(one.null_share_row_sum),
                "rank": one.rank,
                "ambiguity": one.ambiguity,
                "longest": one.longest,
            }
            for one in certificate.heads
        ],
        "layers": [one.sentence() for one in certificate.layers if not one.separable],
        "receipt": describe_receipt(certificate.receipt),
    }


def describe_intervals(one: Intervals) -> dict[str, Any]:
    columns = zip(one.targets, one.sources, one.weights, one.low, one.high, strict=True)
    rows = [[int(t), int(s), round(float(w), 5), round(float(a), 5), round(float(b), 5)] for t, s, w, a, b in columns]
    return {"layer": one.layer, "head": one.head, "rows": rows}


def certificate_figure(certificate: Certificate) -> "Figure":
    layers = len(certificate.blocks)
    heads = max(one.head for one in certificate.heads) + 1
    shares = np.full((layers, heads), np.nan)
    for one in certificate.heads:
        shares[one.layer, one.head] = one.null_share_row_sum
    figure = new_figure(0.42 * heads + 1.6, 0.32 * layers + 1.3)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap=sequential(), vmin=0, vmax=max(0.01, float(np.nanmax(shares))), aspect="auto")
    for one in certificate.heads:
        front = "white" if shares[one.layer, one.head] > 0.6 * np.nanmax(shares) else "black"
        axes.text(one.head, one.layer, MARKS[one.verdict][0], ha="center", va="center", color=front, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_xticks(range(heads))
    axes.set_yticks(range(layers))
    figure.colorbar(image, ax=axes, label="share without effect")
    set_title(axes, "● identifiable   ◐ given the keys   ○ not")
    return figure
