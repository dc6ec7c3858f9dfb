"""Numbered lines: line ends, blank lines, and lines that are not text."""

from pathlib import Path

import pytest

import thalweg as tw
from thalweg.files import lines
from thalweg.files.lines import is_unicode, read_lines


def test_lines_when_ended_in_any_way_then_are_numbered_from_one(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n\nfive")
    assert list(read_lines(file)) == [(1, "one"), (2, "two"), (3, "three"), (4, ""), (5, "five")]


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("é".encode() + b"a\xffb", "byte 0xff at offset 3"),
        (b"\xe9t\xe9", "byte 0xe9 at offset 0"),
        (b"a\0b", "NUL"),
    ],
)
def test_line_when_not_text_then_is_an_error_and_the_next_is_read(line: bytes, fact: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"first\n" + line + b"\nlast")
    first, bad, last = read_lines(file)
    assert (first, last) == ((1, "first"), (3, "last"))
    assert isinstance(bad[1], tw.InputError)
    assert f"line 2 of {file}" in str(bad[1])
    assert fact in str(bad[1])


def test_line_when_too_long_then_is_an_error_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_CHARACTERS", 10)
    file = tmp_path / "a.txt"
    file.write_text("x" * 10 + "\n" + "x" * 11 + "\n" + "x" * 35 + "\nlast\n" + "x" * 22)
    numbered = dict(read_lines(file))
    assert {line for line, text in numbered.items() if isinstance(text, tw.InputError)} == {2, 3, 5}
    assert (numbered[1], numbered[4]) == ("x" * 10, "last")
    assert "more than 10 characters" in str(numbered[3])


def test_file_when_missing_or_blank_then_raises(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match=r"cannot read .*missing\.txt"):
        next(read_lines(tmp_path / "missing.txt"))
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(tw.InputError, match=r"blank\.txt is empty"):
        list(read_lines(tmp_path / "blank.txt"))


def test_text_when_it_has_a_lone_surrogate_then_is_not_unicode() -> None:
    assert is_unicode("日本 😀")
    assert not is_unicode("a\ud800")
