"""The folder of a long run, the same for probe, train, bench and corpus: its lock, its identity and its files.

A run folder holds `run.json` with the identity of the run, files that are written atomically, and `digests.txt` with a
digest of each. A run resumes if its identity is the same: weights, config, tokenizer, data, options, schema and
versions. Otherwise opening the folder raises before any file is changed. A file whose digest differs is reported and
computed again.
"""

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from thalweg.digests import text_digest
from thalweg.errors import DamagedFileWarning, InputError
from thalweg.files.atomic import DRAFT, draft_of, read_tensors, write_tensors
from thalweg.version import __version__

HEADER, LOCK, DIGESTS = "run.json", "run.lock", "digests.txt"
VERSIONS = ("thalweg", "transformers", "torch")  # part of the identity, if the provenance names them
RESUME = "run the same command again to resume"
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

    @staticmethod
    def of(kind: RunKind, identity: Mapping[str, Any], provenance: Mapping[str, str]) -> "RunHeader":
        """The header of a run by this version of Thalweg, or by the versions that its provenance names."""
        versions = {name: provenance[name] for name in VERSIONS if name in provenance}
        return RunHeader({**identity, "schema": kind.schema, "thalweg": __version__, **versions}, dict(provenance))

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
            with (self.path / DIGESTS).open("ab") as digests:  # before the file: none is ever without its digest
                digests.write(f"{_file_digest(Path(draft))}  {name}\n".encode())
                digests.flush()
                os.fsync(digests.fileno())

    @contextmanager
    def draft_files(self) -> Iterator[Path]:
        """Yield an empty folder to write to, whose files move to the run folder once all are complete."""
        with self._reported(), tempfile.TemporaryDirectory(DRAFT, dir=self.path) as folder:
            yield Path(folder)
            for name in files_below(Path(folder)):
                (self.path / name).parent.mkdir(exist_ok=True)
                with self.draft(name) as draft:
                    os.replace(Path(folder, name), draft)

    def write_json(self, name: str, value: Any) -> None:
        with self.draft(name) as draft:
            _write_json(draft, value)

    def write_tensors(self, name: str, tensors: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        with self.draft(name) as draft:
            write_tensors(draft, tensors, header)

    def read_tensors(self, name: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The tensors and header of a file of this run; None if the file does not exist or is damaged."""
        if not self.intact(name):
            return None
        return read_tensors(self.path / name, f"part of a {self.kind.name} run")

    def intact(self, *names: str) -> set[str]:
        """Those of the files that exist and are as this run wrote them; warns about damaged ones."""
        existing = {name for name in names if (self.path / name).exists()}
        damaged = damaged_files(self.path, existing)
        for name in damaged:
            warnings.warn(
                f"{self.path / name} is damaged: it has changed since it was written; its content is computed again",
                DamagedFileWarning,
                stacklevel=2,
            )
        return existing.difference(damaged)

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


def files_below(folder: Path) -> list[str]:
    """The names of all files of a folder and its subfolders, relative to it."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def damaged_files(path: Path, names: Iterable[str]) -> list[str]:
    """Those of the files of a run folder whose digest is not in its list of digests."""
    current = {name: _file_digest(path / name) for name in sorted(names)}
    digests = _read_digests(path)  # after the files, because another process may be replacing them
    return [name for name, digest in current.items() if digest not in digests.get(name, ())]


def check_intact(path: Path, names: Iterable[str]) -> None:
    """Raise if a file of a run folder is damaged, for readers that cannot compute it again."""
    for name in damaged_files(path, names):
        raise InputError(
            f"{path / name} is damaged: it has changed since it was written; run the same command again to repair it"
        )


def read_header(path: Path, kind: RunKind) -> RunHeader:
    """Read the header of a run, which may still be running."""
    parts = _read_header_parts(path, kind)
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
    if not _is_header(parts):
        raise InputError(
            f"{path / HEADER} has been modified since it was written; restore it, or choose another folder"
        )
    return RunHeader(identity, provenance)


@contextmanager
def open_run(
    path: Path, kind: RunKind, identity: Mapping[str, Any], provenance: Mapping[str, str]
) -> Iterator[RunFolder]:
    """Start a run in a new or empty folder, or resume the same run, with the folder locked.

    Raises before anything is written if the folder holds another run or other files, or if another process is writing
    to it. A run that wrote nothing but its header does not block another one. Drafts of a killed run are removed.
    """
    header = RunHeader.of(kind, identity, provenance)
    _resumed(path, kind, header)
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
        stored = _resumed(path, kind, header)  # again: another process may have written to it in the meantime
        folder = RunFolder(path, kind, stored or header)
        with folder._reported():
            if stored is None:
                _write_header(path, kind, header)
            _tidy(path)
        yield folder
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.add_note(RESUME)
        raise
    finally:
        lock.release()


def check_foreign(path: Path, kind: RunKind) -> None:
    """Raise for a file, and for a folder without a run that is not empty."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, expected a new or empty folder")
    if not path.is_dir() or (path / HEADER).exists():
        return
    names = sorted(entry.name for entry in path.iterdir())
    foreign = [name for name in names if name != LOCK and not (name.startswith(HEADER) and name.endswith(DRAFT))]
    if foreign:
        raise InputError(
            f"{path} holds files that are not part of a {kind.name} run ({foreign[0]}); choose a new or empty folder"
        )


def _resumed(path: Path, kind: RunKind, header: RunHeader) -> RunHeader | None:
    """The stored header of the same run; None if the folder is free. Raises if it holds anything else."""
    check_foreign(path, kind)
    if not (path / HEADER).exists():
        return None
    names = [entry.name for entry in path.iterdir()]
    wrote_nothing = all(name in (HEADER, LOCK, DIGESTS) or name.endswith(DRAFT) for name in names)
    if wrote_nothing and _is_header(_read_header_parts(path, kind)):
        return None
    stored = read_header(path, kind)
    _check_same(path, stored, header)
    return stored


def _tidy(path: Path) -> None:
    """Remove what a killed run left: drafts, a torn line of digests, and digests of files that are gone."""
    for draft in path.glob(f"*{DRAFT}"):
        if draft.is_dir():
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)
    digests = _read_digests(path)
    kept = [f"{digest}  {name}\n" for name in digests if (path / name).is_file() for digest in digests[name]]
    with draft_of(path / DIGESTS) as draft:
        Path(draft).write_text("".join(kept), encoding="utf-8")


def _read_digests(path: Path) -> dict[str, dict[str, None]]:
    """The digests by file name, as `sha256sum` writes them; a file that is being replaced may have two."""
    digests: dict[str, dict[str, None]] = {}
    file = path / DIGESTS
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else ():
        digest, _, name = line.partition("  ")
        digests.setdefault(name, {})[digest] = None
    return digests


def _file_digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _read_header_parts(path: Path, kind: RunKind) -> dict[str, Any]:
    try:
        header = json.loads((path / HEADER).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not the folder of a {kind.name} run: it has no {HEADER}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path / HEADER}: {error}") from error
    return header if isinstance(header, dict) else {}


def _write_header(path: Path, kind: RunKind, header: RunHeader) -> None:
    parts = {"kind": kind.name, "schema": kind.schema, "identity": header.identity, "provenance": header.provenance}
    with draft_of(path / HEADER) as draft:
        _write_json(Path(draft), {**parts, "digest": _header_digest(parts)})


def _is_header(parts: Mapping[str, Any]) -> bool:
    """Whether these are the parts of a header of any kind of run, as Thalweg wrote it."""
    return parts.get("digest") == _header_digest({name: value for name, value in parts.items() if name != "digest"})


def _header_digest(parts: Mapping[str, Any]) -> str:
    return text_digest([json.dumps(parts, sort_keys=True)])


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")


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
