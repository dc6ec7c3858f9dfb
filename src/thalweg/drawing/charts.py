"""Small charts as SVG: lines with bands, stacked columns, a grid of stacked bars, each with its figures as titles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from thalweg.drawing.elements import Markup, el

WIDTH, HEIGHT = 340, 224
LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 10.0, 40.0
LABELS = 8  # along an axis, at most
COLOURS = 6  # that are told apart
CELL, BAR, MARGIN = 46, 8, 62  # of a grid

Scale = Callable[[float], float]
Marks = Sequence[tuple[float, str]]  # places on an axis, and what stands there


@dataclass(frozen=True)
class Point:
    """A mean with its band at a place, and what is said of it."""

    x: float
    mean: float
    low: float
    high: float
    few: bool  # whether it is of little weight
    said: str


@dataclass(frozen=True)
class Line:
    number: int  # which colour it has
    points: Sequence[Point]


@dataclass(frozen=True)
class Column:
    """Parts on top of each other, by the class of their colour, between two places."""

    start: float
    stop: float
    parts: Sequence[tuple[str, float]]
    said: str


def percent(share: float) -> str:
    return f"{100 * share:g}%".replace("-", "−")


def lines(title: str, x: str, y: str, series: Sequence[Line], below: Marks) -> Markup:
    """Means as lines within their bands, hollow where they are of little weight; `below` is what the axis may say."""
    points = [one for line in series for one in line.points]
    ticks = _ticks(min(0.0, *(one.low for one in points)), max(one.high for one in points))
    places = [*(one.x for one in points), *(place for place, _ in below)]
    first, last = min(places), max(places)
    across = _scale(first, last if last > first else first + 1, LEFT + 6, WIDTH - RIGHT - 6)
    up = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    drawn: list[Markup] = []
    for line in series:
        edge = [(one.x, one.high) for one in line.points] + [(one.x, one.low) for one in reversed(line.points)]
        drawn.append(el("polygon", points=_path(edge, across, up), class_=f"band {colour(line.number)}"))
    for line in series:
        path = _path([(one.x, one.mean) for one in line.points], across, up)
        drawn.append(el("polyline", points=path, class_=f"line {colour(line.number)}"))
        drawn += [
            el("circle", el("title", one.said), cx=across(one.x), cy=up(one.mean), r=3.0, class_=_kind(line, one))
            for one in line.points
        ]
    beside = [(up(one), percent(one)) for one in ticks]
    return _figure(title, *_axes(x, y, [(across(one), text) for one, text in _few(below)], beside), *drawn)


def columns(title: str, x: str, y: str, stacks: Sequence[Column], below: Marks, counts: bool = False) -> Markup:
    """Parts of columns on top of each other: shares, or counts."""
    ticks = _ticks(0.0, max(sum(size for _, size in one.parts) for one in stacks), 1.0 if counts else 0.0)
    places = [*(one.start for one in stacks), *(one.stop for one in stacks), *(place for place, _ in below)]
    across = _scale(min(places), max(places), LEFT + 2, WIDTH - RIGHT - 2)
    up = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    drawn: list[Markup] = []
    for one in stacks:
        left, right, done = across(one.start) + 0.5, across(one.stop) - 0.5, 0.0
        parts: list[Markup] = [el("title", one.said)]
        for kind, size in one.parts:
            top, bottom = up(done + size), up(done)
            parts.append(el("rect", x=left, y=top, width=max(1.0, right - left), height=bottom - top, class_=kind))
            done += size
        drawn.append(el("g", *parts))
    beside = [(up(one), f"{one:,.0f}" if counts else percent(one)) for one in ticks]
    return _figure(title, *_axes(x, y, [(across(one), text) for one, text in _few(below)], beside), *drawn)


def grid(
    title: str, rows: Sequence[int], cells: Sequence[tuple[int, int, str, Sequence[tuple[str, float]], str]]
) -> Markup:
    """Layers upwards, heads across: row and column, a short text, the parts of a bar, and what is said of each."""
    heads = 1 + max(column for _, column, *_ in cells)
    place = {row: number for number, row in enumerate(sorted(rows, reverse=True))}
    height = len(place) * 32 + 20
    drawn: list[Markup] = []
    for row, number in place.items():
        drawn.append(el("text", f"layer {row}", x=0, y=number * 32 + 20, class_="name"))
    for head in range(heads):
        centre = MARGIN + head * CELL + (CELL - 6) / 2
        drawn.append(el("text", head, x=centre, y=len(place) * 32 + 14, text_anchor="middle"))
    drawn.append(el("text", "head", x=0, y=len(place) * 32 + 14))
    for row, column, text, parts, said in cells:
        left, top = float(MARGIN + column * CELL), place[row] * 32
        inside: list[Markup] = [
            el("title", said),
            el("text", text, x=left + (CELL - 6) / 2, y=top + 15, text_anchor="middle", class_="value"),
        ]
        for kind, share in parts:
            wide = share * (CELL - 6)
            inside.append(el("rect", x=left, y=top + 20, width=wide, height=BAR, class_=kind))
            left += wide
        drawn.append(el("g", *inside))
    width = MARGIN + heads * CELL
    picture = el(
        "svg", *drawn, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img", aria_label=title
    )
    return el("div", picture, class_="chart grid scroll", tabindex="0", role="region", aria_label=title)


def colour(number: int) -> str:
    return f"series-{number % COLOURS}"


def legend(names: Sequence[tuple[str, object]]) -> Markup:
    """Which colour is what."""
    return el("p", *(el("span", _sample(kind), one) for kind, one in names), class_="legend marks chart")


def _sample(kind: str) -> Markup:
    """A piece of a line, or of a column."""
    line = kind.startswith("series")
    shown = el("polyline", points="0,6 26,6", class_=f"line {kind}") if line else el("rect", x=7, width=12, height=12)
    return el("svg", shown, viewBox="0 0 26 12", width=26, height=12, class_=f"sample {kind}", aria_hidden="true")


def _figure(title: str, *drawn: Markup) -> Markup:
    label = f"{title}; the figures are in the table below"
    picture = el("svg", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
    return el("figure", el("figcaption", title), picture, class_="chart")


def _axes(x: str, y: str, below: Marks, beside: Marks) -> list[Markup]:
    drawn: list[Markup] = []
    for height, text in beside:
        drawn.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height, class_="rule"))
        drawn.append(el("text", text, x=LEFT - 5, y=height + 4, text_anchor="end"))
    for place, text in below:
        drawn.append(el("text", text, x=place, y=HEIGHT - BOTTOM + 16, text_anchor="middle"))
    drawn.append(el("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    drawn.append(el("text", y, x=9, y=middle, text_anchor="middle", transform=f"rotate(-90 9 {middle:g})"))
    return drawn


def _ticks(low: float, high: float, finest: float = 0.0) -> list[float]:
    """Round numbers around all values, few of them."""
    size = max(high - low, 1e-9)
    rough = 10.0 ** floor(log10(size / 4))
    steps = (one * rough for one in (1, 2, 2.5, 5, 10))
    step = next(one for one in steps if size / one <= 5 and not (finest and one % finest))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


def _few(marks: Marks) -> Marks:
    return marks[:: ceil(len(marks) / LABELS) or 1]


def _kind(line: Line, point: Point) -> str:
    return f"few {colour(line.number)}" if point.few else colour(line.number)


def _scale(low: float, high: float, start: float, stop: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def _path(points: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
