"""The ledger of claims: a table in a terminal, and the same as the page docs/claims.md."""

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
    f"Numbers are means with {LEVEL:.0%} intervals. In brackets is what is asked of them: a claim holds if all the "
    "intervals lie there, it does not if one lies wholly elsewhere, and is undecided otherwise. Bounds other than zero "
    "are ours."
)
QUICK = "A quick run: a few examples and hardly trained models. It shows that the experiments run, and decides nothing."


def ledger_text(ledger: Ledger) -> RenderableType:
    return Group(
        *([Text(QUICK, "bold")] if ledger.quick else []),
        table(ledger.entries),
        Text(f"\n{_counted(ledger)}. {MEANING}", "dim"),
    )


def table(entries: tuple[Entry, ...]) -> Table:
    """Claims with what was measured."""
    shown = Table(
        Column("claim", no_wrap=True),
        "the paper says",
        "measured here",
        "verdict",
        box=None,
        header_style="dim",
        padding=(0, 1, 1, 0),
    )
    for one in entries:
        measured = Text("\n".join(one.measured()))
        if one.found is not None:
            measured.append(f"\n{one.found.on}", "dim")
        shown.add_row(
            one.claim.name, Text(one.claim.says), measured, Text(one.verdict, STYLES[one.verdict]), end_section=True
        )
    return shown


def listed(claims: list[Claim]) -> Table:
    """Claims that could be tested."""
    shown = Table(Column("claim", no_wrap=True), "paper", "where", "what it says", box=None, header_style="dim")
    for one in claims:
        shown.add_row(one.name, one.paper, one.where, Text(one.says))
    return shown


def as_markdown(ledger: Ledger, command: str) -> str:
    """The whole page."""
    versions = ", ".join(f"{name} {version}" for name, version in ledger.provenance.items())
    lines = [
        "# What the papers claim, and what is found here",
        "",
        f"Written by `{command}` ({versions}). {_counted(ledger)}.",
        "",
        *((f"**{QUICK}**", "") if ledger.quick else ()),
        f"{MEANING} Numbers behind them decide nothing and are there to be compared. [claims_how.md](claims_how.md) "
        "says how the experiments are made and what may be concluded.",
    ]
    for paper, entries in groupby(ledger.entries, key=lambda one: one.claim.paper):
        lines += ["", f"## {paper}: {PAPERS[paper]}", "", "| claim | the paper says | measured here | verdict |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [_row(one) for one in entries]
    return "\n".join(lines) + "\n"


def _row(one: Entry) -> str:
    claim = one.claim
    measured = "<br>".join([*one.measured(), *([f"*{one.found.on}*"] if one.found else [])])
    return f"| {claim.name} | {_cell(claim.says)} ({_cell(claim.where)}) | {_cell(measured)} | **{one.verdict}** |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _counted(ledger: Ledger) -> str:
    said = [f"{verdict} {count}" for verdict, count in ledger.counts().items() if count]
    return f"{len(ledger.entries)} claims: {', '.join(said)}"
