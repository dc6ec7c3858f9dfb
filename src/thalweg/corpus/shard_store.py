"""Shards in the run folder of a corpus: a Parquet file of rows each, with maps a safetensors file as well.

A shard's own metadata names its run and its texts, so that a shard of another run, a copy or a truncated file is
noticed without reading the rows.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thalweg.corpus.process import ShardResult
from thalweg.corpus.rows import import_parquet, row_schema
from thalweg.corpus.shards import Shard
from thalweg.errors import InputError, error_line
from thalweg.files.atomic import read_header_of_tensors
from thalweg.files.run_folder import HEADER, LOCK, RunFolder, RunHeader, RunKind, open_run, read_header

KIND = RunKind("corpus", 2)
ROWS, MAPS = "shard-{:06d}.parquet", "maps-{:06d}.safetensors"
OWN_FILES = (HEADER, LOCK, "shard-", "maps-")  # what the names of a corpus's own files start with
METADATA = b"thalweg"  # key of the label in a Parquet file


@dataclass(frozen=True)
class Counts:
    """Numbers of texts and rows, in a shard or a corpus.

    `failed` texts have an error and no results; `incomplete` texts lack a method or the certificate.
    """

    texts: int = 0
    rows: int = 0
    failed: int = 0
    incomplete: int = 0
    first_error: str | None = None

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.texts + other.texts,
            self.rows + other.rows,
            self.failed + other.failed,
            self.incomplete + other.incomplete,
            self.first_error or other.first_error,
        )


@dataclass(frozen=True)
class ShardLabel:
    """Metadata of a shard: the digest of its texts, and its counts."""

    digest: str
    counts: Counts


class ShardStore:
    """The shards of a run while its folder is locked; get one from `open_store`."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        maps = bool(folder.header.identity["maps"])
        self.labels = {
            number: label
            for number, label in read_labels(folder.path, folder.header).items()
            if not maps or self._has_maps(number, label)
        }

    @property
    def counts(self) -> Counts:
        """The counts of all shards together."""
        return total_counts(self.labels)

    def has(self, shard: Shard) -> bool:
        """Whether a shard with exactly these texts has been written."""
        return shard.number in self.labels and self.labels[shard.number].digest == shard.digest

    def add(self, shard: Shard, result: ShardResult) -> None:
        """Write a shard; its maps first, because the rows mark it as complete."""
        pyarrow, parquet = import_parquet()
        counts = Counts(result.texts, len(result.rows), result.failed, result.incomplete, result.first_error)
        label = {
            "run": self.folder.header.digest,
            "schema": KIND.schema,
            "weights": self.folder.header.identity["weights"],
            "shard": shard.number,
            "digest": shard.digest,
            "counts": asdict(counts),
        }
        if self.folder.header.identity["maps"]:
            from torch import from_numpy

            maps = {name: from_numpy(scores) for name, scores in result.maps.items()}
            self.folder.write_tensors(MAPS.format(shard.number), maps, {**label, "tokens": dict(result.tokens)})
        schema = row_schema().with_metadata({METADATA: json.dumps(label).encode()})
        with self.folder.draft(ROWS.format(shard.number)) as draft:
            parquet.write_table(pyarrow.Table.from_pylist(list(result.rows), schema=schema), draft)
        self.labels[shard.number] = ShardLabel(shard.digest, counts)

    def keep_only(self, count: int) -> None:
        """Remove shards from number `count` on, left by a file that was longer when they were written."""
        for file in shard_files(self.folder.path):
            number = int(file.stem.removeprefix("shard-"))
            if number >= count:
                self.folder.remove(file.name, MAPS.format(number))
                self.labels.pop(number, None)

    def _has_maps(self, number: int, label: ShardLabel) -> bool:
        """Whether the maps of a shard are there and complete."""
        try:
            header = read_header_of_tensors(self.folder.path / MAPS.format(number), "the maps of a shard")
        except InputError:
            return False
        return header.get("run") == self.folder.header.digest and header.get("digest") == label.digest


@contextmanager
def open_store(path: Path, identity: Mapping[str, Any], provenance: Mapping[str, str]) -> Iterator[ShardStore]:
    """Start or resume the run with this identity; see `open_run`."""
    import_parquet()
    with open_run(path, KIND, identity, provenance) as folder:
        yield ShardStore(folder)


def read_run(path: Path) -> tuple[RunHeader, dict[int, ShardLabel]]:
    """Read the header of a run and the labels of its shards, also while the run is being written."""
    header = read_header(path, KIND)
    return header, read_labels(path, header)


def read_labels(path: Path, header: RunHeader) -> dict[int, ShardLabel]:
    """Read the labels of all shards by number; raise for a damaged shard and for one that does not belong there."""
    pyarrow, parquet = import_parquet()
    labels = {}
    for file in shard_files(path):
        try:
            label = json.loads((parquet.read_schema(file).metadata or {}).get(METADATA, b"{}"))
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            raise unreadable_shard(file, error) from error
        if not isinstance(label, dict) or label.get("run") != header.digest:
            raise InputError(f"{file} belongs to another run; remove it, or choose another folder")
        if file.name != ROWS.format(label["shard"]):
            raise InputError(f"{file} is a copy of {ROWS.format(label['shard'])}; remove it")
        labels[label["shard"]] = ShardLabel(label["digest"], Counts(**label["counts"]))
    return labels


def total_counts(labels: Mapping[int, ShardLabel]) -> Counts:
    return sum((labels[number].counts for number in sorted(labels)), Counts())


def shard_files(path: Path) -> list[Path]:
    return sorted(path.glob("shard-*.parquet"))


def unreadable_shard(file: Path, error: Exception) -> InputError:
    return InputError(f"cannot read {file}: {error_line(error)}; remove it and run the same command to recompute it")
