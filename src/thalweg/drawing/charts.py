"""Small SVG charts: lines with bands, stacked columns, a grid of stacked bars. Every mark has a tooltip."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from thalweg.drawing.elements import el
from thalweg.drawing.escaping import Markup

WIDTH, HEIGHT = 340, 224
LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 10.0, 40.0
MAX_AXIS_LABELS = 8
COLOURS = 6  # of series
CELL_WIDTH, CELL_HEIGHT, BAR_HEIGHT, MARGIN = 46, 32, 8, 62  # of a grid

Scale = Callable[[float], float]
Labels = Sequence[tuple[float, str]]  # positions on an axis with their labels
Parts = Sequence[tuple[str, float]]  # CSS classes with sizes


@dataclass(frozen=True)
class Point:
    """A mean with its band. Points based on few values are `sparse` and drawn hollow."""

    x: float
    mean: float
    low: float
    high: float
    sparse: bool
    tooltip: str


@dataclass(frozen=True)
class Line:
    """One series of a line chart; `series` selects its colour."""

    series: int
    points: Sequence[Point]


@dataclass(frozen=True)
class Column:
    """A stacked column between two positions of the axis."""

    start: float
    stop: float
    parts: Parts
    tooltip: str


def percent(share: float) -> str:
    return f"{100 * share:g}%".replace("-", "−")


def lines(title: str, x: str, y: str, series: Sequence[Line], below: Labels) -> Markup:
    """A line chart of shares with bands; `below` are the labels of the x axis, thinned out if there are many."""
    points = [point for line in series for point in line.points]
    ticks = _ticks(min(0.0, *(point.low for point in points)), max(point.high for point in points))
    positions = [*(point.x for point in points), *(position for position, _ in below)]
    first, last = min(positions), max(positions)
    across = _scale(first, last if last > first else first + 1, LEFT + 6, WIDTH - RIGHT - 6)
    up = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    drawn = [_band(line, across, up) for line in series]
    for line in series:
        path = _path([(point.x, point.mean) for point in line.points], across, up)
        drawn.append(el("polyline", points=path, class_=f"line {colour(line.series)}"))
        drawn += [_dot(line, point, across, up) for point in line.points]
    return _figure(title, *_axes(x, y, _moved(below, across), [(up(tick), percent(tick)) for tick in ticks]), *drawn)


def columns(title: str, x: str, y: str, stacks: Sequence[Column], below: Labels, counts: bool = False) -> Markup:
    """A chart of stacked columns, of shares or of counts."""
    ticks = _ticks(0.0, max(sum(size for _, size in column.parts) for column in stacks), 1.0 if counts else 0.0)
    edges = [edge for column in stacks for edge in (column.start, column.stop)]
    positions = [*edges, *(position for position, _ in below)]
    across = _scale(min(positions), max(positions), LEFT + 2, WIDTH - RIGHT - 2)
    up = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    drawn: list[Markup] = []
    for column in stacks:
        left, right, base = across(column.start) + 0.5, across(column.stop) - 0.5, 0.0
        parts: list[Markup] = [el("title", column.tooltip)]
        for kind, size in column.parts:
            top, bottom = up(base + size), up(base)
            parts.append(el("rect", x=left, y=top, width=max(1.0, right - left), height=bottom - top, class_=kind))
            base += size
        drawn.append(el("g", *parts))
    beside = [(up(tick), f"{tick:,.0f}" if counts else percent(tick)) for tick in ticks]
    return _figure(title, *_axes(x, y, _moved(below, across), beside), *drawn)


def grid(title: str, layers: Sequence[int], cells: Sequence[tuple[int, int, str, Parts, str]]) -> Markup:
    """A grid with layers upwards and heads across; a cell is (layer, head, label, parts of its bar, tooltip)."""
    heads = 1 + max(head for _, head, *_ in cells)
    row_of = {layer: row for row, layer in enumerate(sorted(layers, reverse=True))}
    bottom = len(row_of) * CELL_HEIGHT
    drawn: list[Markup] = []
    for layer, row in row_of.items():
        drawn.append(el("text", f"layer {layer}", x=0, y=row * CELL_HEIGHT + 20, class_="name"))
    for head in range(heads):
        centre = MARGIN + head * CELL_WIDTH + (CELL_WIDTH - 6) / 2
        drawn.append(el("text", head, x=centre, y=bottom + 14, text_anchor="middle"))
    drawn.append(el("text", "head", x=0, y=bottom + 14))
    for layer, head, label, parts, tooltip in cells:
        left, top = float(MARGIN + head * CELL_WIDTH), row_of[layer] * CELL_HEIGHT
        inside: list[Markup] = [
            el("title", tooltip),
            el("text", label, x=left + (CELL_WIDTH - 6) / 2, y=top + 15, text_anchor="middle", class_="value"),
        ]
        for kind, share in parts:
            width = share * (CELL_WIDTH - 6)
            inside.append(el("rect", x=left, y=top + 20, width=width, height=BAR_HEIGHT, class_=kind))
            left += width
        drawn.append(el("g", *inside))
    width, height = MARGIN + heads * CELL_WIDTH, bottom + 20
    picture = el(
        "svg", *drawn, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img", aria_label=title
    )
    return el("div", picture, class_="chart grid scroll", tabindex="0", role="region", aria_label=title)


def colour(series: int) -> str:
    """The CSS class of a series."""
    return f"series-{series % COLOURS}"


def legend(entries: Sequence[tuple[str, object]]) -> Markup:
    """A legend of CSS classes and their names."""
    return el("p", *(el("span", _sample(kind), name) for kind, name in entries), class_="legend marks chart")


def _sample(kind: str) -> Markup:
    """A short line for a series, a square for anything else."""
    line = kind.startswith("series")
    mark = el("polyline", points="0,6 26,6", class_=f"line {kind}") if line else el("rect", x=7, width=12, height=12)
    return el("svg", mark, viewBox="0 0 26 12", width=26, height=12, class_=f"sample {kind}", aria_hidden="true")


def _figure(title: str, *drawn: Markup) -> Markup:
    label = f"{title}; the figures are in the table below"
    picture = el("svg", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
    return el("figure", el("figcaption", title), picture, class_="chart")


def _axes(x: str, y: str, below: Labels, beside: Labels) -> list[Markup]:
    drawn: list[Markup] = []
    for height, text in beside:
        drawn.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height, class_="rule"))
        drawn.append(el("text", text, x=LEFT - 5, y=height + 4, text_anchor="end"))
    for position, text in below:
        drawn.append(el("text", text, x=position, y=HEIGHT - BOTTOM + 16, text_anchor="middle"))
    drawn.append(el("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    drawn.append(el("text", y, x=9, y=middle, text_anchor="middle", transform=f"rotate(-90 9 {middle:g})"))
    return drawn


def _band(line: Line, across: Scale, up: Scale) -> Markup:
    edge = [(point.x, point.high) for point in line.points] + [(point.x, point.low) for point in reversed(line.points)]
    return el("polygon", points=_path(edge, across, up), class_=f"band {colour(line.series)}")


def _dot(line: Line, point: Point, across: Scale, up: Scale) -> Markup:
    kind = f"sparse {colour(line.series)}" if point.sparse else colour(line.series)
    return el("circle", el("title", point.tooltip), cx=across(point.x), cy=up(point.mean), r=3.0, class_=kind)


def _ticks(low: float, high: float, finest: float = 0.0) -> list[float]:
    """A few round numbers that enclose all values, multiples of `finest`."""
    size = max(high - low, 1e-9)
    rough = 10.0 ** floor(log10(size / 4))
    steps = (factor * rough for factor in (1, 2, 2.5, 5, 10))
    step = next(step for step in steps if size / step <= 5 and not (finest and step % finest))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


def _moved(labels: Labels, across: Scale) -> Labels:
    """Labels at their places in the drawing, thinned out to `MAX_AXIS_LABELS`."""
    step = ceil(len(labels) / MAX_AXIS_LABELS) or 1
    return [(across(position), text) for position, text in labels[::step]]


def _scale(low: float, high: float, start: float, stop: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def _path(points: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
