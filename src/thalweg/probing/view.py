"""Terminal views of probes: rates by layer as a table, and one text with the tokens recovered at each layer."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.drawing.terminal import receipt_text, shown
from thalweg.printable import printable, visible
from thalweg.probing.result import Probes, Recovery
from thalweg.rates import LEVEL

BAR_CHARACTERS = 20


@shown
def probes_text(probes: Probes) -> RenderableType:
    options = probes.configuration
    heading = Text("recovered tokens by layer", "bold")
    heading.append(
        f"\nmodel {printable(probes.provenance['model'])}   candidates from the {options['candidates']}", "dim"
    )
    if options["to"] != 0:
        heading.append(f"   recovering layer {options['to']}", "dim")
    table = Table("probe", "layer", "strict", "interval", "", "lenient", box=None, header_style="dim")
    last = None
    for (key, match), rate in probes.rates.items():
        if match == "lenient":
            continue
        name = f"{key.kind}, {key.metric}" + (f", {key.part} only" if key.part != "whole" else "")
        bar = Text("█" * round(BAR_CHARACTERS * rate.rate), "blue")
        interval = f"{rate.low:.3f}–{rate.high:.3f}"
        lenient = f"{probes.rates[key, 'lenient'].rate:.3f}"
        table.add_row(name if name != last else "", str(key.layer), f"{rate.rate:.3f}", interval, bar, lenient)
        last = name
    return Group(heading, table, _notes(probes))


@shown
def recovery_text(recovery: Recovery) -> RenderableType:
    heading = Text("recovered tokens", "bold")
    heading.append(f"   probe {visible(recovery.probe)}; ● recovered, otherwise the nearest token\n", "dim")
    table = Table("layer", *map(str, recovery.layers), box=None, header_style="dim")
    for position, piece in enumerate(recovery.tokens.pieces):
        cells = []
        for layer in range(len(recovery.layers)):
            hit = recovery.hits[layer, position]
            nearest = printable(recovery.taken_for[layer][position])
            cells.append(Text("●", "blue") if hit == 1 else Text(f"◐ {nearest}" if hit > 0 else nearest, "dark_orange"))
        table.add_row(Text(printable(piece)), *cells)
    return Group(heading, table)


def _notes(probes: Probes) -> Text:
    counts = probes.counts
    text = Text(
        f"chance {probes.chance['strict']:.3g} (lenient {probes.chance['lenient']:.3g}); {counts['test tokens']} "
        f"tokens of {counts['test sentences']} held-out sentences, {counts['train sentences']} sentences for training; "
        f"{LEVEL:.0%} intervals, clustered by sentence\n",
        "dim",
    )
    return text.append_text(receipt_text(probes.receipt))
