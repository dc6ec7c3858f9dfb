"""Escaping of untrusted text: tokens, labels and model names are data, never control codes or markup."""

import html

from thalweg.printable import visible


class Markup(str):
    """HTML that is already escaped."""

    __slots__ = ()


def escaped(value: object) -> Markup:
    """A value as HTML: markup unchanged, floats to two decimals, everything else as printable, escaped text."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return Markup(f"{value:.2f}".rstrip("0").rstrip("."))
    return Markup(html.escape(visible(str(value))))


def attribute(page: str) -> Markup:
    """A whole page as the value of an attribute; line breaks stay."""
    return Markup(html.escape(page))
