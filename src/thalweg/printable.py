"""The one function that text from outside passes on its way to a terminal, and tokens on their way to a page."""


def visible(text: str) -> str:
    """Spell out control and bidirectional characters, so that none moves the cursor or reorders the text.

    >>> visible("a\\x1b[2J\\u202e")
    'a\\\\x1b[2J\\\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable(text: str) -> str:
    """The same for a name, which must not be empty.

    >>> printable("a\\nb"), printable("")
    ('a\\\\nb', '␣')
    """
    return visible(text) or "␣"
