"""HTML and SVG elements as text. Everything that is not `Markup` is escaped."""

from collections.abc import Iterable, Sequence

from thalweg.drawing.escaping import Markup, escaped

SELF_CLOSING = {"circle", "line", "polygon", "polyline", "rect"}


def el(tag: str, /, *children: object, **attributes: object) -> Markup:
    """An element. `class_` and `aria_label` become class and aria-label; attributes that are None are left out."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in SELF_CLOSING and not children:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{''.join(map(escaped, children))}</{tag}>")


def section(name: str, title: str, note: str, *parts: object) -> Markup:
    """A section with its heading and a note below it; `name` is its id."""
    heading = el("h2", title, id=f"{name}-title")
    return el("section", heading, el("p", note, class_="note"), *parts, id=name, aria_labelledby=f"{name}-title")


def table(
    caption: object, header: Sequence[object], rows: Iterable[Sequence[object]], class_: str = "numbers"
) -> Markup:
    """A table that scrolls on its own if it is wider than the page; the first cell of each row is its heading."""
    body = (
        el("tr", el("th", first, scope="row"), *(cell if is_cell(cell) else el("td", cell) for cell in rest))
        for first, *rest in rows
    )
    content = el(
        "table",
        el("caption", el("span", caption)),
        el("thead", el("tr", *(el("th", name, scope="col") for name in header))),
        el("tbody", *body),
        class_=class_,
    )
    return el("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)


def is_cell(value: object) -> bool:
    """Whether a value is already a table cell."""
    return isinstance(value, Markup) and value.startswith("<td")


def details(title: str, *parts: object) -> Markup:
    """Content that is folded until the reader opens it."""
    return el("details", el("summary", title), *parts)
