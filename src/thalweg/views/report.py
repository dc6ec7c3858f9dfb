"""A report in a terminal: its headline, and what it leaves out. The rest is to be looked at."""

from rich.console import Group, RenderableType
from rich.text import Text

from thalweg.results.report import Report
from thalweg.views.terminal import printable, render


@render.register
def _(report: Report) -> RenderableType:
    heading = Text(printable(report.headline()), "bold")
    about = (
        f"model {printable(report.provenance['model'])}   {len(report.tokens)} tokens   methods {len(report.explained)}"
    )
    left = [Text(f"left out: {printable(one)}", "dim") for one in report.left_out]
    return Group(heading, Text(about, "dim"), *left)
