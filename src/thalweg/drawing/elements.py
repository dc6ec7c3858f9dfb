"""HTML and SVG as text. Whatever is no `Markup` already is escaped where it becomes part of a page."""

import html
from collections.abc import Iterable, Sequence

from thalweg.drawing.terminal import printable

EMPTY = {"circle", "line", "polygon", "polyline", "rect"}


class Markup(str):
    """HTML as it is to stand in a page."""

    __slots__ = ()


def el(tag: str, /, *children: object, **attributes: object) -> Markup:
    """An element; `class_` and `aria_label` are the attributes class and aria-label, and None leaves one out."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in EMPTY and not children:
        return Markup(f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{''.join(map(escaped, children))}</{tag}>")


def escaped(value: object) -> Markup:
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return Markup(f"{value:.2f}".rstrip("0").rstrip("."))
    text = str(value)
    return Markup(html.escape(printable(text)) if text else "")


def section(name: str, title: str, note: str, *parts: object) -> Markup:
    heading = el("h2", title, id=f"{name}-title")
    return el("section", heading, el("p", note, class_="note"), *parts, id=name, aria_labelledby=f"{name}-title")


def table(
    caption: object, heads: Sequence[object], rows: Iterable[Sequence[object]], class_: str = "numbers"
) -> Markup:
    """A table that scrolls by itself where it is wider than the page; the first cell of a row names it."""
    body = (
        el("tr", el("th", first, scope="row"), *(cell if is_cell(cell) else el("td", cell) for cell in rest))
        for first, *rest in rows
    )
    whole = el(
        "table",
        el("caption", el("span", caption)),
        el("thead", el("tr", *(el("th", one, scope="col") for one in heads))),
        el("tbody", *body),
        class_=class_,
    )
    return el("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def is_cell(value: object) -> bool:
    return isinstance(value, Markup) and value.startswith("<td")


def details(title: str, *parts: object) -> Markup:
    return el("details", el("summary", title), *parts)
