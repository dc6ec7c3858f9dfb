"""What is asked: which probes, of which layers, and which sentences they learn from and are tested on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from thalweg.errors import InputError
from thalweg.probing.search import Metric, Part

Kind = Literal["identity", "linear", "mlp"]
Match = Literal["strict", "lenient"]
Candidates = Literal["sentence", "vocabulary"]
FEWEST = 10  # sentences: seven to learn from, one to choose by, two to test on
BATCH = 32  # sentences that run at once


class Key(NamedTuple):
    """One probe: it reads layer `layer` and is asked for the state of the same token at layer `to`."""

    layer: int
    to: int
    kind: Kind
    metric: Metric
    part: Part


@dataclass(frozen=True)
class ProbePlan:
    """The choices of a run; `to` is a layer, or "previous" for the layer below each one."""

    kinds: Sequence[Kind]
    metrics: Sequence[Metric]
    parts: Sequence[Part]
    candidates: Candidates
    to: int | Literal["previous"]
    seed: int

    def __post_init__(self) -> None:
        for name, known in (("kinds", Kind), ("metrics", Metric), ("parts", Part)):
            object.__setattr__(self, name, _chosen(name, getattr(self, name), get_args(known)))
        if self.candidates not in get_args(Candidates):
            raise InputError(f'candidates was given {self.candidates!r}; expected "sentence" or "vocabulary"')
        if not (self.to == "previous" or (_whole(self.to) and self.to >= 0)):
            raise InputError(f'to was given {self.to!r}; expected a layer from 0, or "previous"')
        if self.candidates == "vocabulary" and self.to != 0:
            raise InputError(
                f"the words of the vocabulary are known at layer 0 only, and to={self.to!r} was asked for: leave it "
                'out, or choose candidates="sentence"'
            )
        if not _whole(self.seed):
            raise InputError(f"seed was given {self.seed!r}; expected a whole number")

    def pairs(self, layers: int) -> list[tuple[int, int]]:
        """(layer, the layer whose state it is asked for) of a model with states 0 to `layers`."""
        if self.to == "previous":
            return [(layer, layer - 1) for layer in range(1, layers + 1)]
        if self.to > layers:
            raise InputError(f"to={self.to} was asked for, but the model's layers go from 0 to {layers}")
        return [(layer, self.to) for layer in range(self.to, layers + 1)]

    def keys(self, layers: int) -> list[Key]:
        return [
            Key(layer, to, kind, metric, part)
            for kind in self.kinds
            for metric in self.metrics
            for part in self.parts
            for layer, to in self.pairs(layers)
        ]


@dataclass(frozen=True)
class Split:
    """Distinct sentences, each in one of three sets: no text that is tested was learnt from."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @staticmethod
    def of(texts: Sequence[str], seed: int) -> "Split":
        """70, 15 and 15 of a hundred sentences by lot; a sentence that comes twice counts once."""
        distinct = list(dict.fromkeys(texts))
        if len(distinct) < FEWEST:
            raise InputError(
                f"{len(distinct)} different texts were given; probes need {FEWEST} or more, to learn from some and be "
                "tested on others"
            )
        random.Random(seed).shuffle(distinct)
        held = max(1, round(0.15 * len(distinct)))
        tested = max(2, held)
        return Split(
            train=tuple(distinct[held + tested :]),
            validation=tuple(distinct[tested : held + tested]),
            test=tuple(distinct[:tested]),
        )


def batches(texts: Sequence[str], order: str | None = None) -> list[list[str]]:
    """Texts of similar length together, so that little is padded; `order` seeds the order of the batches."""
    sorted_texts = sorted(texts, key=len)
    groups = [sorted_texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
    if order is not None:
        random.Random(order).shuffle(groups)
    return groups


def _chosen(name: str, given: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else tuple(given)
    if not listed or len(set(listed)) < len(listed) or not set(listed) <= set(known):
        raise InputError(f"{name} was given {list(listed)}; expected one or more of {', '.join(known)}, each once")
    return listed


def _whole(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)
