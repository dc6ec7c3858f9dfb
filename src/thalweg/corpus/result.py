"""The result of a run over a corpus: a few figures, and the folder with the rows."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.corpus.shard_store import Counts, read_run, total_counts
from thalweg.files.records import read_as, reading, require

if TYPE_CHECKING:
    from rich.console import RenderableType

    from thalweg.corpus.summary import Summary


@dataclass(frozen=True)
class _Options:
    """The options of a run that its results need later."""

    methods: tuple[str, ...]
    certificate: str | None
    texts: int


@dataclass(frozen=True)
class Corpus:
    """A folder of rows, complete or not.

    `identity` is what the run depends on: digests of the model and the texts, and every option. `resumed` is the
    number of texts that an earlier run had already written, `seconds` the duration of this one, and `memory` an upper
    bound of its memory in bytes beyond the model, per worker; None if the folder was only loaded.
    """

    folder: Path
    identity: Mapping[str, Any]
    provenance: Mapping[str, str]
    counts: Counts
    shards: int
    resumed: int
    seconds: float
    memory: int | None = None

    @property
    def texts(self) -> int:
        return self.counts.texts

    @property
    def complete(self) -> bool:
        """Whether every text of the file has been processed."""
        return self.texts == self.identity["texts"]

    @staticmethod
    def load(folder: str | Path) -> "Corpus":
        """Load the state of a folder, also while a run is writing to it."""
        path = Path(folder)
        with reading(path, "a corpus run"):
            header, labels = read_run(path)
            read_as(_Options, header.identity, "identity")
            provenance = read_as(Mapping[str, str], header.provenance, "provenance")
            require("model" in provenance, "provenance.model is missing")
            for number, label in labels.items():
                read_as(Counts, asdict(label.counts), f"the counts of shard {number}")
            counts = total_counts(labels)
            return Corpus(path, header.identity, header.provenance, counts, len(labels), counts.texts, 0.0)

    def summary(self) -> "Summary":
        """Summarise the rows written so far."""
        from thalweg.corpus.summarise import summarise

        return summarise(self.folder)

    def __rich__(self) -> "RenderableType":
        from thalweg.corpus.view import corpus_text

        return corpus_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return {
            "folder": str(self.folder),
            "texts": self.texts,
            "rows": self.counts.rows,
            "failed": self.counts.failed,
            "incomplete": self.counts.incomplete,
            "first_error": self.counts.first_error,
            "shards": self.shards,
            "complete": self.complete,
            "resumed": self.resumed,
            "seconds": self.seconds,
            "memory": self.memory,
            "identity": dict(self.identity),
            "provenance": dict(self.provenance),
        }
