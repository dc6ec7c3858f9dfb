"""What a training led to: how well the classifier does, how far its attention can be read, and how it got there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from thalweg.encoders.training.loop import Epoch
from thalweg.encoders.training.storage import RESULT, read_result
from thalweg.errors import InputError
from thalweg.rates import Rate

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Figures:
    """A classifier in numbers.

    `certified_length` is the largest number of tokens at which the weights of all heads are determined, in pieces cut
    from the validation texts joined together; `tried_length` is the largest that was tried. `identifiable` is the
    share of heads that are determined on the longest of the validation texts as they are, of which `longest` is the
    length. Both take each head's own output as known;
    `separable` is the share of layers whose output tells their heads' outputs apart on these texts.
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

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> "Figures":
        """What `asdict` made."""
        rates = {name: None if described[name] is None else Rate(**described[name]) for name in ("validation", "test")}
        return Figures(**{**described, **rates})


@dataclass(frozen=True)
class Training:
    """A finished run: the figures of the model in `folder`, those of its teacher if it had one, and the epochs.

    The best epoch was chosen by the validation examples, so that the accuracy on them is a little too good; that on
    the test examples is not.
    """

    folder: str
    figures: Figures
    teacher: Figures | None
    history: tuple[Epoch, ...]
    best_epoch: int
    seconds: float
    labels: tuple[str, ...]
    counts: Mapping[str, int]
    inherited: Mapping[str, tuple[str, ...]] | None  # weights taken from another model: exact, approximate, left
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in ("counts", "inherited", "configuration", "provenance"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __rich__(self) -> "RenderableType":
        from thalweg.encoders.training.view import training_text

        return training_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "folder": self.folder,
            "figures": asdict(self.figures),
            "teacher": None if self.teacher is None else asdict(self.teacher),
            "history": [asdict(one) for one in self.history],
            "best_epoch": self.best_epoch,
            "seconds": self.seconds,
            "labels": list(self.labels),
            "counts": dict(self.counts),
            "inherited": None if self.inherited is None else {k: list(v) for k, v in self.inherited.items()},
            "configuration": dict(self.configuration),
            "provenance": dict(self.provenance),
        }

    @staticmethod
    def load(folder: str | Path) -> "Training":
        """Read the result of a run that came to its end."""
        described = read_result(Path(folder))
        try:
            inherited = described["inherited"]
            return Training(
                folder=str(folder),
                figures=Figures.from_dict(described["figures"]),
                teacher=None if described["teacher"] is None else Figures.from_dict(described["teacher"]),
                history=tuple(Epoch(**one) for one in described["history"]),
                best_epoch=described["best_epoch"],
                seconds=described["seconds"],
                labels=tuple(described["labels"]),
                counts=described["counts"],
                inherited=None if inherited is None else {name: tuple(names) for name, names in inherited.items()},
                configuration=described["configuration"],
                provenance=described["provenance"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{str(Path(folder) / RESULT)!r} lacks a part of a training: {error!r}") from error
