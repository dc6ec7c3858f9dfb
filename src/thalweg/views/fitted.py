"""What is shown in windows of different widths."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement

WIDEST = 1000  # columns: no window is wider


class Fitted:
    """The first of several ways to show the same that fits into the window, or the last."""

    def __init__(self, *ways: RenderableType) -> None:
        self.ways = ways

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        wide = options.update(max_width=WIDEST)
        fitting = (one for one in self.ways if Measurement.get(console, wide, one).maximum <= options.max_width)
        yield next(fitting, self.ways[-1])
