"""Untrusted text: control and bidirectional characters."""

import pytest

from thalweg.printable import printable, visible


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


def test_text_when_empty_then_only_a_name_is_marked() -> None:
    assert (visible(""), printable("")) == ("", "␣")
