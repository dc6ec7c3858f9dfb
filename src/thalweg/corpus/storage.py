"""The folder of a corpus: what was asked, and one Parquet file for each shard, there as a whole or not at all."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from thalweg.corpus.rows import SCHEMA, parquet, schema
from thalweg.corpus.shards import Shard
from thalweg.corpus.work import Done
from thalweg.digests import text_digest
from thalweg.errors import InputError, error_line
from thalweg.files.atomic import alone, check_same, draft_of, make_folder, read_header_of_tensors, write_tensors

HEADER, ROWS, MAPS = "corpus.json", "shard-*.parquet", "maps-{:06d}.safetensors"
OURS = ("corpus.json", "shard-", "maps-")
MARK = b"thalweg"  # under which a shard says what it is of


@dataclass(frozen=True)
class Counts:
    """What a shard, or all of them, hold."""

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
class Mark:
    """What a shard says of itself: of which texts it is, by their digest, and what it holds."""

    digest: str
    counts: Counts


class Folder:
    """Shards of one configuration; a folder that holds another run, or anything else, is refused."""

    def __init__(self, path: Path, configuration: Mapping[str, Any], provenance: Mapping[str, str]) -> None:
        self.path, self.configuration, self.provenance = path, dict(configuration), dict(provenance)
        self.done: dict[int, Mark] = {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Look at what is there, and keep other processes out for as long as shards are written."""
        parquet()
        make_folder(self.path)
        with alone(self.path):
            try:
                self._open()
            except OSError as error:
                raise self._unwritable(error) from error
            yield

    def _open(self) -> None:
        header = self.path / HEADER
        if header.exists():
            check_same(self.path, read_header(self.path)["configuration"], self.configuration)
        elif any(not _is_draft(one) for one in self.path.iterdir()):
            raise InputError(
                f"{str(self.path)!r} holds files that are not of a corpus; choose a new or an empty folder"
            )
        for one in filter(_is_draft, self.path.iterdir()):  # of a run that was killed while it wrote
            one.unlink()
        if not header.exists():
            with draft_of(header) as draft:
                head = {**self._mark(), "configuration": self.configuration, "provenance": self.provenance}
                Path(draft).write_text(json.dumps(head, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        maps = bool(self.configuration["maps"])
        self.done = {
            number: mark
            for number, mark in read_marks(self.path, self._mark()["configuration_hash"]).items()
            if not maps or _has_maps(self.path / MAPS.format(number), mark)
        }

    def _mark(self) -> dict[str, Any]:
        """Which run a file is of."""
        return {
            "schema": SCHEMA,
            "configuration_hash": short(self.configuration),
            "weights": self.configuration["weights"],
        }

    @property
    def counts(self) -> Counts:
        """What all shards hold together."""
        return add_up(self.done)

    def has(self, shard: Shard) -> bool:
        """Whether these very texts were worked on."""
        return shard.number in self.done and self.done[shard.number].digest == shard.digest

    def add(self, shard: Shard, done: Done) -> None:
        """A shard, whole or not at all; its maps first, because the rows say that it is there."""
        pyarrow, writer = parquet()
        counts = Counts(done.texts, len(done.rows), done.failed, done.incomplete, done.first_error)
        mark = {**self._mark(), "shard": shard.number, "digest": shard.digest, "counts": asdict(counts)}
        columns = schema().with_metadata({MARK: json.dumps(mark).encode()})
        try:
            if self.configuration["maps"]:
                from torch import from_numpy

                maps = {name: from_numpy(array) for name, array in done.maps.items()}
                write_tensors(self.path / MAPS.format(shard.number), maps, {**mark, "tokens": done.tokens})
            with draft_of(self.path / f"shard-{shard.number:06d}.parquet") as draft:
                writer.write_table(pyarrow.Table.from_pylist(list(done.rows), schema=columns), draft)
        except (OSError, SafetensorError) as error:
            raise self._unwritable(error) from error
        self.done[shard.number] = Mark(shard.digest, counts)

    def keep_only(self, count: int) -> None:
        """Remove shards beyond so many, of a file that was longer for a while."""
        for file in shard_files(self.path):
            number = int(file.stem.removeprefix("shard-"))
            if number >= count:
                file.unlink()
                (self.path / MAPS.format(number)).unlink(missing_ok=True)
                self.done.pop(number, None)

    def _unwritable(self, error: OSError | SafetensorError) -> InputError:
        return InputError(
            f"cannot write into {str(self.path)!r}: {getattr(error, 'strerror', None) or error}; shards that were "
            "written before are kept, and the same command goes on from there"
        )


def read_header(folder: Path) -> dict[str, Any]:
    """What was asked for in a folder, and of which model."""
    try:
        found = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{str(folder)!r} holds no corpus: give the folder of a run") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InputError(f"{str(folder / HEADER)!r} is of no corpus that this version reads (schema {SCHEMA})")
    configuration: Any = found.get("configuration")
    whole = isinstance(configuration, dict) and isinstance(found.get("provenance"), dict)
    if not whole or found.get("configuration_hash") != short(configuration):
        raise InputError(f"{str(folder / HEADER)!r} was changed by other hands; restore it, or choose a new folder")
    return found


def read_marks(folder: Path, configuration_hash: str) -> dict[int, Mark]:
    """What the shards say that are there, by number, from their ends alone. One of another run is refused."""
    pyarrow, reader = parquet()
    found = {}
    for file in shard_files(folder):
        try:
            mark = json.loads((reader.read_schema(file).metadata or {}).get(MARK, b"{}"))
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            raise unreadable(file, error) from error
        if not isinstance(mark, dict) or mark.get("configuration_hash") != configuration_hash:
            raise InputError(f"{str(file)!r} is a shard of another run; remove it, or choose another folder")
        if file.name != f"shard-{mark['shard']:06d}.parquet":
            raise InputError(f"{str(file)!r} holds shard {mark['shard']}, which has another name; remove it")
        found[mark["shard"]] = Mark(mark["digest"], Counts(**mark["counts"]))
    return found


def unreadable(shard: Path, error: Exception) -> InputError:
    return InputError(f"{str(shard)!r} cannot be read: {error_line(error)}; remove it to have its texts run again")


def _has_maps(file: Path, mark: Mark) -> bool:
    """Whether a file holds the maps of a shard, whole."""
    try:
        return read_header_of_tensors(file, "the maps of a shard").get("digest") == mark.digest
    except InputError:
        return False


def add_up(marks: Mapping[int, Mark]) -> Counts:
    return sum((marks[number].counts for number in sorted(marks)), Counts())


def shard_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(ROWS))


def short(configuration: Mapping[str, Any]) -> str:
    """The same for the same choices, texts and weights."""
    return text_digest([json.dumps(configuration, sort_keys=True)])


def _is_draft(file: Path) -> bool:
    return file.name.startswith(OURS) and file.suffix == ".draft"
