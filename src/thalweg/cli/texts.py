"""Texts of a command: an argument, `-` for stdin, or `--file`; alone or in pairs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from thalweg.cli.early import check_text
from thalweg.errors import InputError
from thalweg.files.tables import read_pairs, read_texts

Text = str | tuple[str, str]
STDIN = "-"


def read_text(
    text: str | None, file: Path | None, text_column: str, pair: str | None = None, pair_column: str | None = None
) -> Text:
    """The one text of a command, or its pair of texts."""
    entries = read_several(text, file, text_column, None, pair, pair_column)
    if len(entries) > 1:
        raise InputError(
            f"{file} has {len(entries)} texts, expected one: use thalweg corpus or thalweg mix for several, or "
            "- < FILE to read a whole file as one text"
        )
    return entries[0]


def read_several(
    text: str | None,
    file: Path | None,
    text_column: str,
    limit: int | None,
    pair: str | None = None,
    pair_column: str | None = None,
) -> list[Text]:
    """The texts of a command, or its pairs of texts."""
    if (text is None) == (file is None):
        raise InputError("expected either a text (- for stdin) or --file with texts")
    if file is not None:
        if pair is not None:
            raise InputError("--pair goes with a text: name the second column of --file with --pair-column")
        if pair_column is None:
            return [*read_file(file, text_column, limit)]
        with spooled(file) as table:
            return [*read_pairs(table, text_column, pair_column, limit)]
    assert text is not None
    if pair_column is not None:
        raise InputError("--pair-column goes with --file: give the second text of a pair with --pair")
    if text == pair == STDIN:
        raise InputError("only one text of a pair can come from stdin")
    texts = tuple(_from_stdin() if entry == STDIN else entry for entry in (text, pair) if entry is not None)
    check_text(*texts)
    return [texts[0] if len(texts) == 1 else (texts[0], texts[1])]


def read_file(file: Path, text_column: str, limit: int | None) -> list[str]:
    """The texts of a file, or of stdin."""
    with spooled(file) as table:
        return read_texts(table, text_column, limit)


@contextmanager
def spooled(file: Path) -> Iterator[Path]:
    """The file, or for `-` a temporary one with what stdin holds: some commands read their texts twice."""
    if str(file) != STDIN:
        yield file
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "stdin"
        copy.write_bytes(sys.stdin.buffer.read())
        yield copy


def _from_stdin() -> str:
    """All of stdin as one text, without the line break at its end."""
    content = sys.stdin.buffer.read()
    try:
        return content.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InputError(
            f"stdin is not valid UTF-8 (byte 0x{content[error.start]:02x} at offset {error.start})"
        ) from error
