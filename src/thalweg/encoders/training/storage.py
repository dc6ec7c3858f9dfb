"""The folder of a run: what it can go on from after a kill, and in the end the model and what is known of it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from thalweg.errors import InputError
from thalweg.files.atomic import alone, draft_of, read_tensors, write_tensors

Stage = Literal["checkpoint", "teacher"]
STAGES: tuple[Stage, ...] = ("teacher", "checkpoint")
SCHEMA = 2
RESULT = "training.json"


class Folder:
    """Files of one configuration. A folder that holds another run, or anything else, is refused."""

    def __init__(self, path: Path, configuration: Mapping[str, Any]) -> None:
        self.path, self.configuration = path, dict(configuration)
        if path.exists() and not path.is_dir():
            raise InputError(f"{str(path)!r} is a file; expected a folder that is new or empty")
        kept = self.finished() if (path / RESULT).exists() else next(filter(None, map(self._header, STAGES)), None)
        if kept is not None:
            self._compare(kept["configuration"])
        elif path.is_dir() and any(not _is_draft(one) for one in path.iterdir()):
            raise InputError(f"{str(path)!r} holds files that are not of a training; choose a new or an empty folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the folder for as long as something is written into it."""
        with alone(self.path):
            for one in self.path.iterdir():
                if _is_draft(one):  # of a run that was killed while it wrote
                    one.unlink()
            yield

    def finished(self) -> dict[str, Any] | None:
        """The result, if the run came to its end."""
        return read_result(self.path) if (self.path / RESULT).exists() else None

    def read(self, stage: Stage) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was kept of a stage, if anything was."""
        file = self._file(stage)
        if not file.exists():
            return None
        tensors, header = read_tensors(file, "part of a training")
        if header.get("schema") != SCHEMA or not isinstance(header.get("configuration"), dict):
            raise InputError(f"{str(file)!r} has the schema {header.get('schema')!r}; this version reads {SCHEMA}")
        return tensors, header

    def keep(self, stage: Stage, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        described = {"schema": SCHEMA, "configuration": self.configuration, **header}
        try:
            write_tensors(self._file(stage), tensors, described)
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the result, after which what led to it is not needed."""
        try:
            with draft_of(self.path / RESULT) as draft:
                text = json.dumps({"schema": SCHEMA, **result}, ensure_ascii=False, indent=1, allow_nan=False)
                Path(draft).write_text(text + "\n", encoding="utf-8")
            self.drop_unfinished()
        except OSError as error:
            raise self._unwritable(error) from error

    def drop_unfinished(self) -> None:
        for stage in STAGES:
            self._file(stage).unlink(missing_ok=True)

    def _header(self, stage: Stage) -> dict[str, Any] | None:
        found = self.read(stage)
        return None if found is None else found[1]

    def _compare(self, other: Mapping[str, Any]) -> None:
        names = dict.fromkeys([*other, *self.configuration])
        pairs = {name: (other.get(name), self.configuration.get(name)) for name in names}
        different = [
            f"{name} ({there!r} there, {here!r} here)" for name, (there, here) in pairs.items() if there != here
        ]
        if different:
            raise InputError(
                f"{str(self.path)!r} holds a run with another choice of {', '.join(different)}; give the same again to "
                "go on with it, or choose another folder"
            )

    def _file(self, stage: Stage) -> Path:
        return self.path / f"{stage}.safetensors"

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot write into {str(self.path)!r}: {error.strerror or error}")


def read_result(folder: Path) -> dict[str, Any]:
    """What `finish` wrote."""
    file = folder / RESULT
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{str(folder)!r} holds no finished training: give the folder of a run that came to its end"
        ) from error
    if not isinstance(described, dict) or described.get("schema") != SCHEMA or "configuration" not in described:
        raise InputError(f"{str(file)!r} is no result of a training that this version reads (schema {SCHEMA})")
    return described


def _is_draft(file: Path) -> bool:
    ours = (RESULT, *(f"{stage}.safetensors" for stage in STAGES))
    return file.name.startswith(ours) and file.suffix == ".draft"
