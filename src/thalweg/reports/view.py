"""Views of a report: a summary for the terminal, the HTML page, a figure."""

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from thalweg.attribution.packed import POOLED, describe
from thalweg.drawing.escaping import printable
from thalweg.drawing.figures import label, strips
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays
from thalweg.errors import InputError
from thalweg.identifiability.view import describe_certificate, describe_intervals
from thalweg.reports.result import HeadMap, Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(report: Report) -> str:
    """A report as a self-contained HTML page."""
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


def _describe_map(head_map: HeadMap, arrays: Arrays) -> dict[str, Any]:
    return {
        "layer": head_map.layer,
        "heads": head_map.heads,
        "firstQuery": head_map.first_query,
        "firstKey": head_map.first_key,
        "cell": head_map.cell,
        "weights": arrays.packed(head_map.weights),
        "null": arrays.packed(head_map.null),
    }


def report_text(report: Report) -> RenderableType:
    """The headline and what the report leaves out."""
    heading = Text(printable(report.headline()), "bold")
    methods = ", ".join(packed.method for packed in report.explained)
    about = f"model {printable(report.provenance['model'])}   {len(report.tokens)} tokens   methods {methods}"
    left_out = [Text(f"left out: {printable(entry)}", "dim") for entry in report.left_out]
    return Group(heading, Text(about, "dim"), *left_out)


def report_figure(report: Report) -> "Figure":
    """Scores of all methods for the initial target."""
    target = report.target or (POOLED,)
    rows = {packed.method: packed.received(target) for packed in report.explained if packed.explains(target)}
    if not rows:
        raise InputError("cannot draw a figure: none of the report's methods explains its target")
    positions = [position for position in target if position != POOLED]
    title = " ".join(label(report.tokens.pieces[position]) for position in positions) or "all positions"
    title = title if report.prediction is None else f"prediction {label(report.prediction)}"
    return strips(rows, report.tokens.pieces, title)
