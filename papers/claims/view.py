"""Views of the ledger: a table for the terminal, and the page docs/claims.md."""

from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from papers.claims.ledger import PAPERS, Claim, Entry, Ledger, Verdict
from thalweg.rates import LEVEL

STYLES: dict[Verdict, str] = {
    "holds": "bold blue",
    "does not hold": "bold dark_orange",
    "undecided": "bold",
    "not testable here": "dim",
}
MEANING = (
    f"Numbers are means with {LEVEL:.0%} intervals; the bounds they must satisfy are in brackets. A claim holds if all "
    "intervals satisfy their bounds, does not hold if one lies entirely on the other side, and is undecided otherwise. "
    "Bounds other than zero are ours."
)
QUICK = (
    "A quick run with a few examples and barely trained models: it shows that the experiments run, and decides nothing."
)


def ledger_text(ledger: Ledger) -> RenderableType:
    return Group(
        *([Text(QUICK, "bold")] if ledger.quick else []),
        table(ledger.entries),
        Text(f"\n{_counted(ledger)}. {MEANING}", "dim"),
    )


def table(entries: tuple[Entry, ...]) -> Table:
    """Claims with the measured numbers and verdicts."""
    shown = Table(
        Column("claim", no_wrap=True),
        "claim of the paper",
        "measured",
        "verdict",
        box=None,
        header_style="dim",
        padding=(0, 1, 1, 0),
    )
    for entry in entries:
        measured = Text("\n".join(entry.measured()))
        if entry.finding is not None:
            measured.append(f"\n{entry.finding.on}", "dim")
        verdict = Text(entry.verdict, STYLES[entry.verdict])
        shown.add_row(entry.claim.name, Text(entry.claim.says), measured, verdict, end_section=True)
    return shown


def listed(claims: list[Claim]) -> Table:
    """The registered claims."""
    shown = Table(Column("claim", no_wrap=True), "paper", "where", "claim text", box=None, header_style="dim")
    for claim in claims:
        shown.add_row(claim.name, claim.paper, claim.where, Text(claim.says))
    return shown


def as_markdown(ledger: Ledger, command: str) -> str:
    """The page docs/claims.md."""
    versions = ", ".join(f"{name} {version}" for name, version in ledger.provenance.items())
    lines = [
        "# The papers' claims, tested",
        "",
        f"Written by `{command}` ({versions}). {_counted(ledger)}.",
        "",
        *((f"**{QUICK}**", "") if ledger.quick else ()),
        f"{MEANING} Numbers without a bound are shown for comparison. [claims_how.md](claims_how.md) describes the "
        "experiments and what may be concluded from them.",
    ]
    for paper, entries in groupby(ledger.entries, key=lambda entry: entry.claim.paper):
        lines += ["", f"## {paper}: {PAPERS[paper]}", "", "| name | claim of the paper | measured | verdict |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [_row(entry) for entry in entries]
    return "\n".join(lines) + "\n"


def _row(entry: Entry) -> str:
    claim = entry.claim
    measured = "<br>".join([*entry.measured(), *([f"*{entry.finding.on}*"] if entry.finding else [])])
    return f"| {claim.name} | {_cell(claim.says)} ({_cell(claim.where)}) | {_cell(measured)} | **{entry.verdict}** |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _counted(ledger: Ledger) -> str:
    counts = [f"{verdict} {count}" for verdict, count in ledger.counts().items() if count]
    return f"{len(ledger.entries)} claims: {', '.join(counts)}"
