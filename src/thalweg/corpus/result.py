"""What a run over a corpus left behind, in a few figures; the rows are in its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.corpus.storage import Counts, add_up, read_header, read_marks

if TYPE_CHECKING:
    from rich.console import RenderableType

    from thalweg.corpus.summary import Summary


@dataclass(frozen=True)
class Corpus:
    """`failed` texts have an error and nothing else; of `incomplete` ones a method or the certificate failed.

    `found` is how many texts were there from an earlier run, `seconds` what this one took, and `memory` the bytes that
    it took at most beside the model (each worker, if there were several); None where nothing ran.
    """

    folder: Path
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]
    counts: Counts
    shards: int
    found: int
    seconds: float
    memory: int | None = None

    @property
    def texts(self) -> int:
        return self.counts.texts

    @property
    def complete(self) -> bool:
        """Whether no text of the corpus is missing."""
        return self.texts == self.configuration["texts"]

    @staticmethod
    def load(folder: str | Path) -> "Corpus":
        """What is in a folder so far, also while a run writes into it."""
        path = Path(folder)
        header = read_header(path)
        done = read_marks(path, header["configuration_hash"])
        total = add_up(done)
        return Corpus(path, header["configuration"], header["provenance"], total, len(done), total.texts, 0.0)

    def summary(self) -> "Summary":
        """What its rows say together, as far as they are written (needs DuckDB)."""
        from thalweg.corpus.summary import summarise

        return summarise(self.folder)

    def __rich__(self) -> "RenderableType":
        from thalweg.corpus.view import corpus_text

        return corpus_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "folder": str(self.folder),
            "texts": self.texts,
            "rows": self.counts.rows,
            "failed": self.counts.failed,
            "incomplete": self.counts.incomplete,
            "first_error": self.counts.first_error,
            "shards": self.shards,
            "complete": self.complete,
            "found": self.found,
            "seconds": self.seconds,
            "memory": self.memory,
            "configuration": dict(self.configuration),
            "provenance": dict(self.provenance),
        }
