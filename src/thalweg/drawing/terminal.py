"""Terminal primitives: shades, layouts that fit the window, receipts."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from thalweg.printable import printable, visible

if TYPE_CHECKING:
    from thalweg.receipt import Receipt

P = ParamSpec("P")
SHADES = 6  # more cannot be told apart
MAX_COLUMNS = 1000  # wider than any window
MAX_ROW_SUM_ERROR = 1e-3  # rows that miss one by more do not count as summing to one


class Shown:
    """Content whose text is spelt out by `visible` as it is printed: only our own styles reach the terminal."""

    def __init__(self, content: RenderableType) -> None:
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.content, options):
            text = "\n".join(map(visible, segment.text.split("\n")))
            yield segment if segment.control else Segment(text, segment.style)


def shown(view: Callable[P, RenderableType]) -> Callable[P, RenderableType]:
    """Decorate the terminal view of a result, whatever console prints it."""

    @wraps(view)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> RenderableType:
        return Shown(view(*args, **kwargs))

    return drawn


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


def fitted_table(names: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> Fitted:
    """A table, or in a narrow window one line per row: its first entry, then names and values."""
    table = Table(*names, box=None, header_style="dim", padding=(0, 1))
    lines: list[Text] = []
    for first, *values in rows:
        table.add_row(first, *values)
        parts = [Text.assemble(f"{name} ", value) for name, value in zip(names[1:], values, strict=True)]
        lines.append(Text.assemble(first, ": ", Text(", ").join(parts)))
    return Fitted(table, Group(*lines))


def shade(strength: int, negative: bool) -> str:
    """Rich style for a score: blue, or orange if negative, in steps from 0 to `SHADES`."""
    if strength == 0:
        return "dim"
    part = strength / SHADES
    low, high = ((255, 236, 217), (214, 96, 10)) if negative else ((222, 235, 250), (24, 90, 170))
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    front = "white" if part > 0.5 else "black"
    return f"{front} on rgb({red},{green},{blue})" + (" bold" if strength == SHADES else "")


def receipt_text(receipt: "Receipt", row_sum_error: float = 1.0) -> Text:
    """Checks and figures in one line, then what was proved earlier, then assumptions."""
    checks = [
        *(
            f"{name.replace('_', ' ')} {check.worst:.0e} (allowed {check.allowed:.0e})"
            for name, check in receipt.checks.items()
        ),
        *([f"rows sum to 1 within {row_sum_error:.0e}"] if row_sum_error < MAX_ROW_SUM_ERROR else []),
        *(f"{name} {value:.3g}" for name, value in receipt.figures.items()),
    ]
    text = Text(printable("checked: " + ", ".join(checks)), "dim")
    for label, entries in (("proved when the model was learnt", receipt.learnt), ("assumed", receipt.assumed)):
        if entries:
            text.append("\n" + printable(f"{label}: " + "; ".join(entries)))
    return text
