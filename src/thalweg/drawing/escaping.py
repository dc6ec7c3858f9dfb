"""Escaping of untrusted text: tokens, labels and model names are data, never control codes or markup."""

import html


class Markup(str):
    """HTML that is already escaped."""

    __slots__ = ()


def printable(text: str) -> str:
    """Spell out control and bidirectional characters, so that none moves the cursor or reorders the text.

    >>> printable("a\\x1b[2J\\u202e"), printable("")
    ('a\\\\x1b[2J\\\\u202e', '␣')
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) or "␣"


def escaped(value: object) -> Markup:
    """A value as HTML: markup unchanged, floats to two decimals, everything else as printable, escaped text."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return Markup(f"{value:.2f}".rstrip("0").rstrip("."))
    text = str(value)
    return Markup(html.escape(printable(text)) if text else "")


def attribute(page: str) -> Markup:
    """A whole page as the value of an attribute; line breaks stay."""
    return Markup(html.escape(page))
