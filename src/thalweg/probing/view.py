"""Probes in a terminal: rates by layer as a table, and a text with what is left of each of its tokens."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.terminal import printable, receipt_text
from thalweg.probing.result import Probes, Recovery
from thalweg.rates import LEVEL

BAR = 20


def probes_text(probes: Probes) -> RenderableType:
    choices = probes.configuration
    heading = Text("recovered tokens by layer", "bold")
    heading.append(f"\nmodel {printable(probes.provenance['model'])}   nearest in the {choices['candidates']}", "dim")
    if choices["to"] != 0:
        heading.append(f"   states of layer {choices['to']}", "dim")
    table = Table("probe", "layer", "strict", "interval", "", "lenient", box=None, header_style="dim")
    last = None
    for (key, way), rate in probes.rates.items():
        if way == "lenient":
            continue
        name = f"{key.kind}, {key.metric}" + (f", {key.part} only" if key.part != "whole" else "")
        bar = Text("█" * round(BAR * rate.rate), "blue")
        interval = f"{rate.low:.3f}–{rate.high:.3f}"
        lenient = f"{probes.rates[key, 'lenient'].rate:.3f}"
        table.add_row(name if name != last else "", str(key.layer), f"{rate.rate:.3f}", interval, bar, lenient)
        last = name
    return Group(heading, table, _notes(probes))


def recovery_text(recovery: Recovery) -> RenderableType:
    heading = Text("tokens that are still themselves", "bold")
    heading.append(f"   probe {recovery.probe}; elsewhere what they are taken for\n", "dim")
    table = Table("layer", *map(str, recovery.layers), box=None, header_style="dim")
    for place, piece in enumerate(recovery.tokens.pieces):
        cells = []
        for layer in range(len(recovery.layers)):
            hit = recovery.hits[layer, place]
            taken = printable(recovery.taken_for[layer][place])
            cells.append(Text("●", "blue") if hit == 1 else Text(f"◐ {taken}" if hit > 0 else taken, "dark_orange"))
        table.add_row(Text(printable(piece)), *cells)
    return Group(heading, table)


def _notes(probes: Probes) -> Text:
    counts = probes.counts
    text = Text(
        f"chance {probes.chance['strict']:.3g} (lenient {probes.chance['lenient']:.3g}); {counts['test tokens']} "
        f"tokens of {counts['test sentences']} sentences that no probe has seen, {counts['train sentences']} to learn "
        f"from; {LEVEL:.0%} intervals, by sentence\n",
        "dim",
    )
    return text.append_text(receipt_text(probes.receipt))
