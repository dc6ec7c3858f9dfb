"""A folder that a run of probes is kept in: what it can go on from after a kill, and its result."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from thalweg.errors import InputError
from thalweg.files.atomic import read_tensors, write_tensors

Stage = Literal["statistics", "mlp", "probes"]
STAGES: tuple[Stage, ...] = ("statistics", "mlp", "probes")
SCHEMA = 1


class Folder:
    """Files of one configuration; a folder that holds another one is refused. Without a path nothing is kept."""

    def __init__(self, path: Path | None, configuration: Mapping[str, Any]) -> None:
        self.path, self.configuration = path, dict(configuration)
        if path is None:
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {str(path)!r}: {error.strerror or error}") from error
        for stage in STAGES:
            if found := self.read(stage):
                other = found[1]["configuration"]
                different = [name for name in self.configuration if other.get(name) != self.configuration[name]]
                if different:
                    raise InputError(
                        f"{str(path)!r} holds a run with another choice of {', '.join(different)}; choose another "
                        "folder, or empty this one"
                    )

    def read(self, stage: Stage) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was kept of a stage, if anything was."""
        if self.path is None or not (file := self._file(stage)).exists():
            return None
        return read_stage(file)

    def keep(self, stage: Stage, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        if self.path is not None:
            described = {"schema": SCHEMA, "configuration": self.configuration, **header}
            try:
                write_tensors(self._file(stage), tensors, described)
            except OSError as error:
                raise InputError(f"cannot write into {str(self.path)!r}: {error.strerror or error}") from error

    def drop_unfinished(self) -> None:
        """Once the result is there, what led to it is not needed."""
        if self.path is not None:
            for stage in STAGES[:-1]:
                self._file(stage).unlink(missing_ok=True)

    def _file(self, stage: Stage) -> Path:
        assert self.path is not None
        return self.path / f"{stage}.safetensors"


def read_stage(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, header = read_tensors(file, "a run of probes")
    if header.get("schema") != SCHEMA or not isinstance(header.get("configuration"), dict):
        raise InputError(
            f"{str(file)!r} has the schema {header.get('schema')!r} of probes; this version reads {SCHEMA}"
        )
    return tensors, header
