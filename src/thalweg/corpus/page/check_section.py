"""Section on checks: the largest error of each, relative to its tolerance."""

from thalweg.corpus.summary import Summary
from thalweg.drawing.elements import Markup, el, section, table

NOTE = (
    "What was verified against each text's own forward pass. Each check is shown for the text where its error is "
    "largest relative to the tolerance there."
)


def check_section(summary: Summary) -> Markup:
    title, checks = "Checks", summary.checks
    if not checks:
        return section("checks", title, "Nothing was checked because no text could be processed.")
    broken = [check for check in checks if check.exceeding]
    result = (
        el("p", f"{len(broken)} of {len(checks)} checks exceed their tolerance on some text.", class_="warning")
        if broken
        else el("p", "Every check is within its tolerance on every text.", class_="status")
    )
    figures = table(
        "Largest relative error and its tolerance",
        ("check", "largest error", "tolerance", "text", "line", "texts that exceed it"),
        (
            (
                f"{check.method}: {check.identity.replace('_', ' ')}",
                "not finite" if check.worst is None else f"{check.worst:.1e}",
                f"{check.allowed:.1e}",
                f"{check.text:,}",
                f"{check.line:,}",
                f"{check.exceeding:,} of {check.texts:,}",
            )
            for check in checks
        ),
    )
    return section("checks", title, NOTE, result, figures)
