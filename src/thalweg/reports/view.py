"""Views of a report: a summary for the terminal, the HTML page, a figure."""

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from thalweg.attribution.packed import POOLED, describe, describe_answer, describe_outcome
from thalweg.drawing.figures import label, strips
from thalweg.drawing.page import report_page
from thalweg.drawing.payload import Arrays
from thalweg.drawing.terminal import shown
from thalweg.errors import InputError
from thalweg.identifiability.alternatives_view import describe_intervals
from thalweg.identifiability.view import describe_certificate, describe_example
from thalweg.printable import printable
from thalweg.reports.result import HeadMap, Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(report: Report) -> str:
    """A report as a self-contained HTML page."""
    arrays = Arrays()
    parts = {
        "answer": describe_answer(report.answer),
        "outputs": [None if output is None else describe_outcome(output) for output in report.outputs],
        "prompt": report.prompt,
        "openWords": report.words,
        "methods": [describe(entry, arrays) for entry in report.explained],
        "blocks": [{"name": name, "role": role} for name, role in report.blocks],
        "certificate": None if report.certificate is None else describe_certificate(report.certificate),
        "alternatives": describe_example(report.certificate, arrays, report.intervals),
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


@shown
def report_text(report: Report) -> RenderableType:
    """The headline and what the report leaves out."""
    heading = Text(printable(report.headline()), "bold")
    methods = ", ".join(printable(packed.method) for packed in report.explained)
    about = f"model {printable(report.provenance['model'])}   {len(report.tokens)} tokens   methods {methods}"
    warnings = [Text(f"warning: {printable(entry)}", "yellow") for entry in report.tokens.warnings()]
    left_out = [Text(f"left out: {printable(entry)}", "dim") for entry in report.left_out]
    return Group(heading, *warnings, Text(about, "dim"), *left_out)


def report_figure(report: Report) -> "Figure":
    """Scores of all methods for the initial target."""
    target = report.target or (POOLED,)
    rows = {packed.method: packed.received(target) for packed in report.explained if packed.explains(target)}
    if not rows:
        raise InputError("cannot draw a figure: none of the report's methods explains its target")
    positions = [position for position in target if position != POOLED]
    title = " ".join(label(report.tokens.pieces[position]) for position in positions) or "all positions"
    title = title if report.answer is None else f"prediction {label(str(report.answer.outcomes[0]))}"
    return strips(rows, report.tokens.labels(), title)
