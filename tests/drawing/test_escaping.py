"""Untrusted text as HTML."""

import pytest

from thalweg.drawing.escaping import Markup, attribute, escaped


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
