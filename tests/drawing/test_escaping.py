"""Untrusted text: control characters, bidirectional characters, HTML."""

import pytest

from thalweg.drawing.escaping import Markup, attribute, escaped, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("witty", "witty"),
        ("", "␣"),
        ("日本", "日本"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\0\n\t", "\\x00\\n\\t"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066a\u2069\u200b", "\\u2066a\\u2069\\u200b"),
        ("\ud800", "\\ud800"),
    ],
)
def test_text_when_made_printable_then_has_no_control_or_bidi_characters(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown
    shown.encode()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("</script><b>", "&lt;/script&gt;&lt;b&gt;"),
        ("\"'&", "&quot;&#x27;&amp;"),
        ("a\u202eb", "a\\u202eb"),
        (Markup("<b>"), "<b>"),
        ("", ""),
        (12, "12"),
        (1.5, "1.5"),
        (2.0, "2"),
        (0.126, "0.13"),
    ],
)
def test_value_when_escaped_then_only_markup_stays_markup(value: object, shown: str) -> None:
    assert escaped(value) == shown
    assert isinstance(escaped(value), Markup)


def test_markup_when_joined_to_a_text_then_is_a_text_again() -> None:
    assert not isinstance(Markup("<b>") + "<i>", Markup)


def test_page_when_it_is_an_attribute_then_keeps_its_lines_but_no_quotes() -> None:
    assert attribute('<p class="x">\n</p>') == "&lt;p class=&quot;x&quot;&gt;\n&lt;/p&gt;"
