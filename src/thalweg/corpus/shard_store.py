"""Shards in the run folder of a corpus: a Parquet file of rows each, with maps a safetensors file as well.

A shard's own metadata names its run and its texts. Shards that the run did not write, or that have changed since, are
noticed by their digests.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thalweg.corpus.process import ShardResult
from thalweg.corpus.rows import import_parquet, row_schema
from thalweg.corpus.shards import Shard
from thalweg.files.atomic import read_header_of_tensors
from thalweg.files.run_folder import RunFolder, RunHeader, RunKind, check_intact, open_run, read_header

KIND = RunKind("corpus", 4)
ROWS, MAPS = "shard-{:06d}.parquet", "maps-{:06d}.safetensors"
ROWS_NAME = re.compile(r"shard-(\d{6,})\.parquet")
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
        self.labels = _read_labels(folder.path, folder.intact(*shard_names(folder.path)))
        if folder.header.identity["maps"]:
            maps = folder.intact(*(MAPS.format(number) for number in self.labels))
            self.labels = {number: label for number, label in self.labels.items() if self._has_maps(number, maps)}

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
        for name in shard_names(self.folder.path):
            number = _number(name)
            if number >= count:
                self.folder.remove(name, MAPS.format(number))
                self.labels.pop(number, None)

    def _has_maps(self, number: int, intact: Collection[str]) -> bool:
        """Whether the maps of a shard are intact and belong to the same texts."""
        name = MAPS.format(number)
        if name not in intact:
            return False
        header = read_header_of_tensors(self.folder.path / name, "the maps of a shard")
        return header["digest"] == self.labels[number].digest


@contextmanager
def open_store(path: Path, identity: Mapping[str, Any], provenance: Mapping[str, str]) -> Iterator[ShardStore]:
    """Start or resume the run with this identity; see `open_run`."""
    import_parquet()
    with open_run(path, KIND, identity, provenance) as folder:
        yield ShardStore(folder)


def read_run(path: Path) -> tuple[RunHeader, dict[int, ShardLabel]]:
    """Read the header of a run and the labels of its shards, also while the run is being written."""
    header, names = read_header(path, KIND), shard_names(path)
    check_intact(path, names)
    return header, _read_labels(path, names)


def total_counts(labels: Mapping[int, ShardLabel]) -> Counts:
    return sum((labels[number].counts for number in sorted(labels)), Counts())


def shard_names(path: Path) -> list[str]:
    """The names of the shards in a folder, in their order."""
    return sorted((entry.name for entry in path.iterdir() if ROWS_NAME.fullmatch(entry.name)), key=_number)


def _number(name: str) -> int:
    return int(name.removeprefix("shard-").removesuffix(".parquet"))


def _read_labels(path: Path, names: Iterable[str]) -> dict[int, ShardLabel]:
    """Read the labels of intact shards by number."""
    _, parquet = import_parquet()
    labels = {}
    for name in names:
        label = json.loads(parquet.read_schema(path / name).metadata[METADATA])
        labels[label["shard"]] = ShardLabel(label["digest"], Counts(**label["counts"]))
    return labels
