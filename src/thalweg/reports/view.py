"""A report as a person sees it: headline in a terminal, the page, a figure."""

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from thalweg.attribution.packed import POOLED, describe
from thalweg.drawing.figures import label, strips
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays
from thalweg.drawing.terminal import printable
from thalweg.errors import InputError
from thalweg.identifiability.view import describe_certificate, describe_intervals
from thalweg.reports.result import HeadMap, Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(report: Report) -> str:
    """The whole page as one HTML file."""
    arrays = Arrays()
    parts = {
        "prediction": None if report.prediction is None else printable(report.prediction),
        "outputs": [printable(output) for output in report.outputs],
        "prompt": report.prompt,
        "openWords": report.words,
        "methods": [describe(entry, arrays) for entry in report.explained],
        "blocks": [{"name": name, "role": role} for name, role in report.blocks],
        "certificate": None if report.certificate is None else describe_certificate(report.certificate),
        "maps": [_describe_map(entry, arrays) for entry in report.heads],
        "intervals": [describe_intervals(entry) for entry in report.intervals],
        "mixing": None if report.mixing is None else report.mixing.to_dict()["methods"],
        "leftOut": list(report.left_out),
        "provenance": dict(report.provenance),
    }
    return report_page(report.tokens, report.target, report.headline(), parts, arrays)


def _describe_map(one: HeadMap, arrays: Arrays) -> dict[str, Any]:
    return {
        "layer": one.layer,
        "heads": one.heads,
        "queries": one.queries,
        "keys": one.keys,
        "cell": one.cell,
        "weights": arrays.packed(one.weights),
        "null": arrays.packed(one.null),
    }


def report_text(report: Report) -> RenderableType:
    heading = Text(printable(report.headline()), "bold")
    about = (
        f"model {printable(report.provenance['model'])}   {len(report.tokens)} tokens   methods {len(report.explained)}"
    )
    left = [Text(f"left out: {printable(one)}", "dim") for one in report.left_out]
    return Group(heading, Text(about, "dim"), *left)


def report_figure(report: Report) -> "Figure":
    wanted = report.target or (POOLED,)
    rows = {one.method: one.received(wanted) for one in report.explained if set(wanted) <= set(one.targets)}
    if not rows:
        raise InputError("no method of this report explains its target: there is nothing to draw")
    places = [place for place in wanted if place != POOLED]
    title = " ".join(label(report.tokens.pieces[place]) for place in places) or "all positions"
    title = title if report.prediction is None else f"prediction {label(report.prediction)}"
    return strips(rows, report.tokens.pieces, title)
