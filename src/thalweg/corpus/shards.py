"""A file of texts as shards: blocks of consecutive texts, the same whenever the file is read again."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from thalweg.files.tables import stream_texts

CHARACTERS = 2**21  # a shard ends before it would hold more, unless by a single text


@dataclass(frozen=True)
class Text:
    """A text with its number and its line in the file; `error` says why there is none."""

    number: int
    line: int
    text: str = ""
    error: str | None = None

    def as_bytes(self) -> bytes:
        """For a digest; errors name the file, which may move."""
        return f"{self.number}\0{self.line}\0{self.text}\0{self.error is None}\0".encode()


@dataclass(frozen=True)
class Shard:
    """Consecutive texts that are worked on, and written, together."""

    number: int
    texts: tuple[Text, ...]

    @property
    def digest(self) -> str:
        """The same for the same texts on the same lines."""
        digest = hashlib.sha256()
        for text in self.texts:
            digest.update(text.as_bytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Survey:
    """What one reading of a corpus says: how many texts there are, and a digest of them."""

    texts: int
    digest: str


class Reader:
    """The texts of a file, one after the other; `survey` speaks of those that were read."""

    def __init__(self, file: Path, column: str = "text", limit: int | None = None) -> None:
        self.file, self.column, self.limit = file, column, limit
        self._count, self._digest = 0, hashlib.sha256()

    def __iter__(self) -> Iterator[Text]:
        found = islice(stream_texts(self.file, self.column), self.limit)
        for number, (line, text) in enumerate(found):
            one = Text(number, line, text) if isinstance(text, str) else Text(number, line, error=str(text))
            self._count += 1
            self._digest.update(one.as_bytes())
            yield one

    def survey(self) -> Survey:
        return Survey(self._count, self._digest.hexdigest()[:16])


def shards(texts: Iterable[Text], size: int) -> Iterator[Shard]:
    """Blocks of so many texts, or of fewer where they are long: which ones depends on nothing but the texts."""
    number, held, characters = 0, [], 0
    for text in texts:
        if held and (len(held) == size or characters + len(text.text) > CHARACTERS):
            yield Shard(number, tuple(held))
            number, held, characters = number + 1, [], 0
        held.append(text)
        characters += len(text.text)
    if held:
        yield Shard(number, tuple(held))
