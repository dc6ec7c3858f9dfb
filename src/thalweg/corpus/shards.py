"""A file of texts as shards of consecutive texts, the same on every reading of the file."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from thalweg.files.tables import stream_identified

MAX_SHARD_CHARACTERS = 2**21  # a single longer text gets a shard of its own
DIGEST_DIGITS = 16  # hexadecimal


@dataclass(frozen=True)
class CorpusText:
    """A text with its number, its line and its id in the file, or the error that a line gave instead of a text."""

    number: int
    line: int
    text: str = ""
    error: str | None = None
    id: str | None = None

    def to_bytes(self) -> bytes:
        """Bytes to digest: not the error itself, which names a file that may move."""
        return f"{self.number}\0{self.line}\0{self.id or ''}\0{self.text}\0{self.error is None}\0".encode()


@dataclass(frozen=True)
class Shard:
    """Consecutive texts that are processed and written together."""

    number: int
    texts: tuple[CorpusText, ...]

    @property
    def digest(self) -> str:
        """Equal for the same texts on the same lines."""
        digest = hashlib.sha256()
        for text in self.texts:
            digest.update(text.to_bytes())
        return digest.hexdigest()[:DIGEST_DIGITS]


@dataclass(frozen=True)
class TextSurvey:
    """The number of texts in a file and a digest of them."""

    texts: int
    digest: str


class TextReader:
    """Iterate over the texts of a file; `survey` describes the texts read so far."""

    def __init__(
        self, file: Path, column: str = "text", limit: int | None = None, id_column: str | None = None
    ) -> None:
        self.file, self.column, self.limit, self.id_column = file, column, limit, id_column
        self._count, self._digest = 0, hashlib.sha256()

    def __iter__(self) -> Iterator[CorpusText]:
        lines = islice(stream_identified(self.file, self.column, self.id_column), self.limit)
        for number, (line, name, content) in enumerate(lines):
            if isinstance(content, str):
                text = CorpusText(number, line, content, id=name)
            else:
                text = CorpusText(number, line, error=str(content), id=name)
            self._count += 1
            self._digest.update(text.to_bytes())
            yield text

    def survey(self) -> TextSurvey:
        return TextSurvey(self._count, self._digest.hexdigest()[:DIGEST_DIGITS])

    def restarted(self) -> "TextReader":
        """A reader of the same texts from the start."""
        return TextReader(self.file, self.column, self.limit, self.id_column)


def split_shards(texts: Iterable[CorpusText], size: int) -> Iterator[Shard]:
    """Split texts into shards of `size` texts, or fewer if they are long; the split depends on the texts alone."""
    number, texts_held, characters = 0, [], 0
    for text in texts:
        if texts_held and (len(texts_held) == size or characters + len(text.text) > MAX_SHARD_CHARACTERS):
            yield Shard(number, tuple(texts_held))
            number, texts_held, characters = number + 1, [], 0
        texts_held.append(text)
        characters += len(text.text)
    if texts_held:
        yield Shard(number, tuple(texts_held))
