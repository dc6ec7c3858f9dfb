"""Terminal primitives: safe text, shades, bars, layouts that fit the window, and receipts."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.text import Text

from thalweg.receipt import Receipt

STEPS = 6  # shades; terminals and eyes tell no more apart
WIDEST = 1000  # columns: no window is wider


class Fitted:
    """The first of several ways to show the same that fits into the window, or the last."""

    def __init__(self, *ways: RenderableType) -> None:
        self.ways = ways

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        wide = options.update(max_width=WIDEST)
        fitting = (one for one in self.ways if Measurement.get(console, wide, one).maximum <= options.max_width)
        yield next(fitting, self.ways[-1])


def printable(piece: str) -> str:
    """A token as one visible run: control characters are spelled out, so none can move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece) or "␣"


def shade(strength: int, negative: bool) -> str:
    if strength == 0:
        return "dim"
    part = strength / STEPS
    low, high = ((255, 236, 217), (214, 96, 10)) if negative else ((222, 235, 250), (24, 90, 170))
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    front = "white" if part > 0.5 else "black"
    return f"{front} on rgb({red},{green},{blue})" + (" bold" if strength == STEPS else "")


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
