"""An explanation in a terminal: the text shaded by contribution, the largest sources, the receipt."""

from collections.abc import Mapping
from functools import singledispatch

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from thalweg.registry import list_methods, options
from thalweg.results.attribution import Attribution
from thalweg.results.comparison import Comparison
from thalweg.results.mixing import DISTANCES, Mixing
from thalweg.results.receipt import Receipt
from thalweg.views.fitted import Fitted

BARS = (20, 8, 1)  # characters of the longest bar, for wide and narrow windows
STEPS = 6  # shades; terminals and eyes tell no more apart


@singledispatch
def render(result: object) -> RenderableType:
    """A result as a person reads it: everything that is asked first, in that order."""
    raise TypeError(f"there is no view of a {type(result).__name__}")


@render.register
def _(attribution: Attribution) -> RenderableType:
    parts: list[RenderableType] = [_heading(attribution)]
    for row in range(len(attribution.targets)):
        if len(attribution.targets) > 1:
            parts.append(Text(f"\ntarget {row}: {printable(attribution.targets.pieces[row])}", "bold"))
        parts.append(shaded(attribution, row))
        parts.append(
            Fitted(*(_largest(attribution, row, bar) for bar in BARS))
            if len(attribution.targets) == 1
            else _few(attribution, row)
        )
    parts.append(receipt_text(attribution.receipt, attribution.row_sum_error))
    return Group(*parts)


@render.register
def _(comparison: Comparison) -> RenderableType:
    first = comparison.attributions[0]
    parts: list[RenderableType] = [_heading(first, method=False)]
    for one in comparison.attributions:
        parts.append(Text(f"\n{one.method}", "bold"))
        for row in range(len(one.targets)):
            parts += [shaded(one, row), _few(one, row)]
        parts.append(receipt_text(one.receipt, one.row_sum_error))
    return Group(*parts, Text(), _agreement(comparison))


def _agreement(comparison: Comparison) -> Fitted:
    """Methods against methods; by number where their names would not fit, and as a list where numbers would not."""
    names, agreement = comparison.methods, comparison.agreement()
    cells = [["–" if np.isnan(v) else f"{v:+.2f}" for v in row] for row in agreement]
    wide = Table("rank agreement", *names, box=None, header_style="dim")
    narrow = Table(
        "", "rank agreement", *(str(number + 1) for number in range(len(names))), box=None, header_style="dim"
    )
    pairs = Text("rank agreement", "dim")
    for number, (name, row) in enumerate(zip(names, cells, strict=True)):
        wide.add_row(name, *row)
        narrow.add_row(str(number + 1), name, *row)
        pairs.append(
            "".join(f"\n{name}, {other} {cell}" for other, cell in zip(names[:number], row, strict=False)), "not dim"
        )
    return Fitted(wide, narrow, pairs)


@render.register
def _(mixing: Mixing) -> RenderableType:
    where = "from the embeddings to each layer" if mixing.start == "embeddings" else "in each layer"
    heading = Text(f"how tokens mix {where}", "bold")
    texts = "one text" if mixing.texts == 1 else f"{mixing.texts} texts"
    heading.append(f"\nmodel {printable(mixing.provenance['model'])}   {texts}, {mixing.tokens} tokens", "dim")
    parts: list[RenderableType] = [heading]
    for method, found in mixing.figures.items():
        before = {"own": found.own, "not own": found.not_own}
        near = dict(zip(DISTANCES, found.by_distance.T, strict=True))
        after = dict(zip(("special", "punct.", "content"), found.by_kind.T, strict=True))
        whole = _shares(method, {**before, **near, **after})
        parts += [Text(), Fitted(whole, Group(_shares(method, {**before, **after}), _shares(None, near)))]
        parts.append(receipt_text(found.receipt))
    meaning = (
        "\nin %, by layer. own: what a token gives itself; not own: tokens with a larger contributor than themselves; "
        "then what neighbours give, by distance; then what special tokens, punctuation and content tokens give"
    )
    return Group(*parts, Text(meaning, "dim"))


def _shares(title: str | None, columns: Mapping[str, np.ndarray]) -> Table:
    """Shares in per cent, a row for each layer."""
    table = Table("", *columns, box=None, header_style="dim", padding=(0, 1, 0, 0), title=title, title_justify="left")
    for number, shares in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(str(number), *(f"{100 * share:.1f}" for share in shares))
    return table


def shaded(attribution: Attribution, row: int) -> Text:
    """The sources in order, each on a background as strong as its score."""
    scores = attribution.scores[row]
    largest = max(float(np.abs(scores).max()), 1e-12)
    text = Text()
    for piece, score in zip(attribution.sources.pieces, scores, strict=True):
        strength = round(STEPS * abs(float(score)) / largest)
        text.append(printable(piece), _shade(strength, score < 0))
        text.append(" ")
    return text


def printable(piece: str) -> str:
    """A token as one visible run: control characters are spelled out, so none can move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece) or "␣"


def _shade(strength: int, negative: bool) -> str:
    if strength == 0:
        return "dim"
    part = strength / STEPS
    low, high = ((255, 236, 217), (214, 96, 10)) if negative else ((222, 235, 250), (24, 90, 170))
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    front = "white" if part > 0.5 else "black"
    return f"{front} on rgb({red},{green},{blue})" + (" bold" if strength == STEPS else "")


def _heading(attribution: Attribution, method: bool = True) -> Text:
    text = Text()
    if method:
        text.append(attribution.method, "bold")
        known = list_methods().get(attribution.method)  # a saved result may come from a method of somebody else
        usual = {one.name: one.default for one in options(known.params)} if known else {}
        chosen = ", ".join(f"{k}={v}" for k, v in attribution.params.items() if v != usual.get(k))
        text.append(f" ({chosen})\n" if chosen else "\n", "dim")
    text.append(f"model {printable(attribution.provenance['model'])}", "dim")
    if attribution.prediction is not None:
        text.append("   prediction ")
        text.append(printable(attribution.prediction), "bold")
        if len(attribution.targets) == 1:
            text.append(f"   read at {printable(attribution.targets.pieces[0])}")
    elif len(attribution.targets) == 1:
        text.append(f"   target {printable(attribution.targets.pieces[0])}")
    return text


def _largest(attribution: Attribution, row: int, longest: int) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1))
    largest = float(np.abs(attribution.scores[row]).max()) or 1.0
    for piece, score in attribution.top(8, row):
        bar = "█" * max(1, round(longest * abs(score) / largest)) if score else ""
        table.add_row(Text(printable(piece)), f"{score:.3f}", Text(bar, "blue" if score >= 0 else "dark_orange"))
    return table


def _few(attribution: Attribution, row: int) -> Text:
    """The largest sources in one line of numbers, for those who see no colours."""
    return Text("  ".join(f"{printable(piece)} {score:.3f}" for piece, score in attribution.top(4, row)), "dim")


def receipt_text(receipt: Receipt, row_sum_error: float = 1.0) -> Text:
    """What was checked and what was taken for granted, in a line each."""
    checks = [
        *(
            f"{name.replace('_', ' ')} {check.worst:.0e} (allowed {check.allowed:.0e})"
            for name, check in receipt.checks.items()
        ),
        *([f"rows sum to 1 within {row_sum_error:.0e}"] if row_sum_error < 1e-3 else []),
        *(f"{name} {value:.3g}" for name, value in receipt.figures.items()),
    ]
    text = Text("checked: " + ", ".join(checks), "dim")
    if receipt.assumed:
        text.append("\nassumed: " + "; ".join(receipt.assumed))
    return text
