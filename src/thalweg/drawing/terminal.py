"""Terminal primitives: shades, layouts that fit the window, receipts."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.text import Text

from thalweg.drawing.escaping import printable
from thalweg.receipt import Receipt

SHADES = 6  # more cannot be told apart
MAX_COLUMNS = 1000  # wider than any window
MAX_ROW_SUM_ERROR = 1e-3  # rows that miss one by more do not count as summing to one


class Fitted:
    """The first of several layouts that fits the window, or else the last."""

    def __init__(self, *layouts: RenderableType) -> None:
        self.layouts = layouts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        unlimited = options.update(max_width=MAX_COLUMNS)
        fitting = (
            layout
            for layout in self.layouts
            if Measurement.get(console, unlimited, layout).maximum <= options.max_width
        )
        yield next(fitting, self.layouts[-1])


def shade(strength: int, negative: bool) -> str:
    """Rich style for a score: blue, or orange if negative, in steps from 0 to `SHADES`."""
    if strength == 0:
        return "dim"
    part = strength / SHADES
    low, high = ((255, 236, 217), (214, 96, 10)) if negative else ((222, 235, 250), (24, 90, 170))
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    front = "white" if part > 0.5 else "black"
    return f"{front} on rgb({red},{green},{blue})" + (" bold" if strength == SHADES else "")


def receipt_text(receipt: Receipt, row_sum_error: float = 1.0) -> Text:
    """Checks and figures in one line, assumptions in another."""
    checks = [
        *(
            f"{name.replace('_', ' ')} {check.worst:.0e} (allowed {check.allowed:.0e})"
            for name, check in receipt.checks.items()
        ),
        *([f"rows sum to 1 within {row_sum_error:.0e}"] if row_sum_error < MAX_ROW_SUM_ERROR else []),
        *(f"{name} {value:.3g}" for name, value in receipt.figures.items()),
    ]
    text = Text(printable("checked: " + ", ".join(checks)), "dim")
    if receipt.assumed:
        text.append("\n" + printable("assumed: " + "; ".join(receipt.assumed)))
    return text
