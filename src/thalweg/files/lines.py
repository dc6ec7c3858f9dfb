"""Numbered lines of a text file, one at a time; a bad line is yielded as an error, so that the rest can be read."""

from collections.abc import Iterator
from pathlib import Path

from thalweg.errors import InputError

MAX_LINE_CHARACTERS = 2**24  # of a line or a cell; a binary file may have no line breaks at all
Lines = Iterator[tuple[int, str | InputError]]  # numbered from 1, without line ends


def read_lines(file: Path) -> Lines:
    """Lines that end with a line feed, a carriage return or both; only the start of a too long line is held."""
    empty = True
    try:
        # invalid bytes are read as lone surrogates, so that a bad line does not affect the others
        with file.open(encoding="utf-8-sig", errors="surrogateescape") as content:
            number = 0
            while line := content.readline(MAX_LINE_CHARACTERS + 1):
                number += 1
                empty = empty and not line.strip()
                rest = line
                while len(rest) > MAX_LINE_CHARACTERS and not rest.endswith("\n"):
                    rest = content.readline(MAX_LINE_CHARACTERS + 1)
                too_long = rest is not line
                yield number, _too_long(file, number) if too_long else _valid(file, number, line.removesuffix("\n"))
    except OSError as error:
        raise unreadable(file, error) from error
    if empty:
        raise InputError(f"{file} is empty; expected a file with texts")


def unreadable(file: Path, error: OSError) -> InputError:
    return InputError(f"cannot read {file}: {error.strerror or error}")


def is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_long(file: Path, number: int) -> InputError:
    return InputError(f"line {number} of {file} has more than {MAX_LINE_CHARACTERS} characters; split it")


def _valid(file: Path, number: int, line: str) -> str | InputError:
    if "\0" in line:
        return InputError(f"line {number} of {file} has a NUL byte; expected a text file in UTF-8")
    try:
        line.encode()
    except UnicodeEncodeError as error:
        offset = len(line[: error.start].encode())
        byte = line[error.start].encode(errors="surrogateescape").hex()
        return InputError(f"line {number} of {file} is not valid UTF-8 (byte 0x{byte} at offset {offset} of the line)")
    return line
