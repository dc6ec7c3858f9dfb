"""The result of a training run: accuracy, identifiability and history of the classifier."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from thalweg.encoders.inherit import Inherited
from thalweg.encoders.training.loop import Epoch
from thalweg.errors import InputError
from thalweg.files.records import read_as, reading, require
from thalweg.files.run_folder import DIGESTS, RunFolder, RunKind, check_intact
from thalweg.rates import Rate

if TYPE_CHECKING:
    from rich.console import RenderableType

KIND = RunKind("training", 4)
RESULT = "training.json"


@dataclass(frozen=True)
class ClassifierFigures:
    """A classifier in numbers.

    `certified_length` is the largest number of tokens at which all heads are identifiable, in pieces cut from the
    joined validation texts; `tried_length` is the largest number that was tried. `identifiable` is the share of heads
    that are identifiable on the longest validation texts, the longest of which has `longest` tokens. Both assume that
    each head's own output is known; `separable` is the share of layers whose output determines their heads' outputs
    on these texts.
    """

    validation: Rate
    test: Rate | None
    parameters: int
    certified_length: int
    tried_length: int
    identifiable: float
    separable: float
    certified_texts: int
    longest: int


@dataclass(frozen=True)
class Training:
    """A finished run: the figures of the model in `folder`, those of its teacher if any, and the epochs.

    The best epoch was chosen on the validation examples, so the validation accuracy is slightly optimistic; the test
    accuracy is not. `configuration` is the identity of the run: its options, and digests of the data and models.
    """

    folder: str
    figures: ClassifierFigures
    teacher: ClassifierFigures | None
    history: tuple[Epoch, ...]
    best_epoch: int
    seconds: float
    labels: tuple[str, ...]
    counts: Mapping[str, int]
    inherited: Inherited | None
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in ("counts", "configuration", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __rich__(self) -> "RenderableType":
        from thalweg.encoders.training.view import training_text

        return training_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        inherited = None
        if self.inherited is not None:
            inherited = {origin: list(names) for origin, names in asdict(self.inherited).items()}
        return {
            "folder": self.folder,
            "figures": asdict(self.figures),
            "teacher": None if self.teacher is None else asdict(self.teacher),
            "history": [asdict(epoch) for epoch in self.history],
            "best_epoch": self.best_epoch,
            "seconds": self.seconds,
            "labels": list(self.labels),
            "counts": dict(self.counts),
            "inherited": inherited,
            "configuration": dict(self.configuration),
            "provenance": dict(self.provenance),
        }

    @staticmethod
    def load(folder: str | Path) -> "Training":
        """Read the result of a finished run from its folder."""
        file = Path(folder) / RESULT
        if file.exists() and (Path(folder) / DIGESTS).exists():  # not if the model was copied elsewhere
            check_intact(Path(folder), [RESULT])
        with reading(file, "a training result"):
            try:
                entries = json.loads(file.read_text(encoding="utf-8"))
            except FileNotFoundError as error:
                raise InputError(f"{folder} holds no finished training run: it has no {RESULT}") from error
            except OSError as error:
                raise InputError(f"cannot read {file}: {error.strerror or error}") from error
            schema = entries.get("schema") if isinstance(entries, dict) else None
            if schema != KIND.schema:
                raise InputError(
                    f"{file} was written by an incompatible version (schema {schema!r}, expected {KIND.schema})"
                )
            training = read_as(Training, {**entries, "folder": str(folder)})
            for name in ("training examples", "validation examples", "training texts at the length limit"):
                require(name in training.counts, f"counts.{name} is missing")
            require("max_length" in training.configuration, "configuration.max_length is missing")
            return training


def write_training(run: RunFolder, training: Training, model_files: Sequence[str]) -> None:
    """Write a result to the folder of its run, with the names of the files of its model."""
    run.write_json(RESULT, {"schema": KIND.schema, "files": list(model_files), **training.to_dict()})


def is_finished(run: RunFolder) -> bool:
    """Whether the run has a result, and its result and the files of its model are intact."""
    if not run.intact(RESULT):
        return False
    files = json.loads((run.path / RESULT).read_text(encoding="utf-8"))["files"]
    return run.intact(*files) == set(files)
