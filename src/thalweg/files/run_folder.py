"""Run folders: one lock, one identity and one way to resume for every long-running command.

A run folder holds `run.json` with the identity of the run, and files that are written atomically. A run resumes if its
identity is the same: weights, config, tokenizer, data, options, schema and version. Otherwise opening the folder raises
before any file is changed.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from thalweg.digests import text_digest
from thalweg.errors import InputError
from thalweg.files.atomic import DRAFT, draft_of, read_tensors, write_tensors
from thalweg.version import __version__

HEADER, LOCK = "run.json", "run.lock"
SHOWN_CHARACTERS = 80  # of a value in an error


@dataclass(frozen=True)
class RunKind:
    """The name of a kind of run in errors, and the version of its file formats."""

    name: str  # "bench", "corpus", …
    schema: int


@dataclass(frozen=True)
class RunHeader:
    """Everything a run depends on (`identity`), and the origin that it reports (`provenance`)."""

    identity: Mapping[str, Any]
    provenance: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Digest of the identity, equal for equal runs."""
        return text_digest([json.dumps(self.identity, sort_keys=True)])


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run while its lock is held, as `open_run` yields it."""

    path: Path
    kind: RunKind
    header: RunHeader

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """Yield a path to write to, which becomes the file of this name once complete."""
        with self._reported(), draft_of(self.path / name) as draft:
            yield Path(draft)

    def write_json(self, name: str, value: Any) -> None:
        with self.draft(name) as draft:
            draft.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def write_tensors(self, name: str, tensors: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        """Write a safetensors file that carries the run's digest in its header."""
        with self._reported():
            write_tensors(self.path / name, tensors, {"run": self.header.digest, **header})

    def read_tensors(self, name: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The tensors and header of a file of this run; None if the file does not exist."""
        file = self.path / name
        if not file.exists():
            return None
        tensors, header = read_tensors(file, f"part of a {self.kind.name} run")
        if header.get("run") != self.header.digest:
            raise InputError(f"{file} belongs to another run; remove it, or choose another folder")
        return tensors, header

    def remove(self, *names: str) -> None:
        """Remove files that are no longer needed."""
        with self._reported():
            for name in names:
                (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn a failure of the file system into an error that explains how to resume."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            _refuse_write(self.path, error)


def read_header(path: Path, kind: RunKind) -> RunHeader:
    """Read the header of a run, which may still be running."""
    try:
        header = json.loads((path / HEADER).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not the folder of a {kind.name} run: it has no {HEADER}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path / HEADER}: {error}") from error
    parts = header if isinstance(header, dict) else {}
    name, schema = parts.get("kind"), parts.get("schema")
    if name != kind.name:
        raise InputError(f"{path} holds a {name} run, expected a {kind.name} run")
    if schema != kind.schema:
        raise InputError(
            f"{path} was written by an incompatible version (schema {schema}, expected {kind.schema}); choose another "
            "folder"
        )
    identity, provenance = parts.get("identity"), parts.get("provenance")
    if not isinstance(identity, dict) or not isinstance(provenance, dict):
        raise InputError(f"{path / HEADER} is incomplete; restore it, or choose another folder")
    run = RunHeader(identity, provenance)
    if parts.get("digest") != run.digest:
        raise InputError(
            f"{path / HEADER} has been modified since it was written; restore it, or choose another folder"
        )
    return run


@contextmanager
def open_run(
    path: Path, kind: RunKind, identity: Mapping[str, Any], provenance: Mapping[str, str]
) -> Iterator[RunFolder]:
    """Start a run in a new or empty folder, or resume the same run, with the folder locked.

    Raises before anything is written if the folder holds another run or other files, or if another process is writing
    to it. Drafts of a killed run are removed.
    """
    header = RunHeader({**identity, "schema": kind.schema, "thalweg": __version__}, dict(provenance))
    _check_foreign(path, kind)
    if (path / HEADER).exists():
        _check_same(path, read_header(path, kind), header)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {path}: {error.strerror or error}") from error
    lock = FileLock(path / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(f"another process is writing to {path}; wait for it, or choose another folder") from error
    except OSError as error:
        _refuse_write(path, error)
    try:
        folder = RunFolder(path, kind, header)
        for draft in path.glob(f"*{DRAFT}"):
            draft.unlink(missing_ok=True)
        if (path / HEADER).exists():
            _check_same(path, read_header(path, kind), header)  # another process may have started it in the meantime
        else:
            described = {"kind": kind.name, "schema": kind.schema, "digest": header.digest}
            folder.write_json(HEADER, {**described, "identity": header.identity, "provenance": header.provenance})
        yield folder
    finally:
        lock.release()


def _check_foreign(path: Path, kind: RunKind) -> None:
    """Raise for a file, and for a folder without a run that is not empty."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, expected a new or empty folder")
    if not path.is_dir() or (path / HEADER).exists():
        return
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK and not _is_header_draft(entry))
    if foreign:
        raise InputError(
            f"{path} holds files that are not part of a {kind.name} run ({foreign[0]}); choose a new or empty folder"
        )


def _is_header_draft(entry: Path) -> bool:
    return entry.name.startswith(HEADER) and entry.name.endswith(DRAFT)


def _check_same(path: Path, stored: RunHeader, current: RunHeader) -> None:
    names = dict.fromkeys([*stored.identity, *current.identity])
    plain = json.loads(json.dumps(current.identity))  # tuples become lists, as in the file
    different = [
        f"{name} ({_short(stored.identity.get(name))} there, {_short(plain.get(name))} here)"
        for name in names
        if stored.identity.get(name) != plain.get(name)
    ]
    if different:
        raise InputError(
            f"{path} holds a run with different {', '.join(different)}; use the same settings to resume it, or choose "
            "another folder"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _refuse_write(path: Path, error: Exception) -> NoReturn:
    reason = getattr(error, "strerror", None) or error
    raise InputError(
        f"cannot write to {path}: {reason}; finished files are intact, and the same command resumes the run"
    ) from error
