"""Options of a probe run: which probes to fit, and the split of sentences they are fitted and tested on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from thalweg.errors import InputError
from thalweg.probing.search import Metric, Part

ProbeKind = Literal["identity", "linear", "mlp"]
Match = Literal["strict", "lenient"]
Candidates = Literal["sentence", "vocabulary"]
MIN_SENTENCES = 10  # seven for training, one for validation, two for testing
BATCH_SENTENCES = 32


class ProbeKey(NamedTuple):
    """One probe: it reads a token's state at `layer` and estimates the state of the same token at layer `to`."""

    layer: int
    to: int
    kind: ProbeKind
    metric: Metric
    part: Part


@dataclass(frozen=True)
class ProbePlan:
    """The options of a run; `to` is a layer, or "previous" for the layer below each one."""

    kinds: Sequence[ProbeKind] = ("identity", "linear", "mlp")
    metrics: Sequence[Metric] = ("cosine", "l2")
    parts: Sequence[Part] = ("whole",)
    candidates: Candidates = "sentence"
    to: int | Literal["previous"] = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("kinds", ProbeKind), ("metrics", Metric), ("parts", Part)):
            object.__setattr__(self, name, _choices(name, getattr(self, name), get_args(known)))
        if self.candidates not in get_args(Candidates):
            raise InputError(f'candidates must be "sentence" or "vocabulary", got {self.candidates!r}')
        if not (self.to == "previous" or (_is_integer(self.to) and self.to >= 0)):
            raise InputError(f'to must be a layer (an integer of at least 0) or "previous", got {self.to!r}')
        if self.candidates == "vocabulary" and self.to != 0:
            raise InputError(
                f'candidates="vocabulary" works with layer 0 only, got to={self.to!r}: omit to, or use '
                'candidates="sentence"'
            )
        if not _is_integer(self.seed):
            raise InputError(f"seed must be an integer, got {self.seed!r}")

    def pairs(self, layers: int) -> list[tuple[int, int]]:
        """(layer read, layer recovered) for a model with states 0 to `layers`."""
        if self.to == "previous":
            return [(layer, layer - 1) for layer in range(1, layers + 1)]
        if self.to > layers:
            raise InputError(f"to must be one of the model's layers 0 to {layers}, got {self.to}")
        return [(layer, self.to) for layer in range(self.to, layers + 1)]

    def keys(self, layers: int) -> list[ProbeKey]:
        """All probes of the run, for a model with states 0 to `layers`."""
        return [
            ProbeKey(layer, to, kind, metric, part)
            for kind in self.kinds
            for metric in self.metrics
            for part in self.parts
            for layer, to in self.pairs(layers)
        ]


@dataclass(frozen=True)
class SentenceSplit:
    """Distinct sentences in three disjoint sets, so that no probe is tested on a sentence it was fitted on."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @staticmethod
    def of(texts: Sequence[str], seed: int) -> "SentenceSplit":
        """Split at random into 70 % training, 15 % validation and 15 % test; duplicates are dropped."""
        distinct = list(dict.fromkeys(texts))
        if len(distinct) < MIN_SENTENCES:
            raise InputError(
                f"probes need at least {MIN_SENTENCES} different texts for training, validation and testing, got "
                f"{len(distinct)}"
            )
        random.Random(seed).shuffle(distinct)
        validation = max(1, round(0.15 * len(distinct)))
        test = max(2, validation)
        return SentenceSplit(
            train=tuple(distinct[validation + test :]),
            validation=tuple(distinct[test : validation + test]),
            test=tuple(distinct[:test]),
        )


def sentence_batches(texts: Sequence[str], order: str | None = None) -> list[list[str]]:
    """Batches of sentences of similar length, which need little padding; `order` seeds a shuffle of the batches."""
    sorted_texts = sorted(texts, key=len)
    batches = [sorted_texts[start : start + BATCH_SENTENCES] for start in range(0, len(texts), BATCH_SENTENCES)]
    if order is not None:
        random.Random(order).shuffle(batches)
    return batches


def _choices(name: str, value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    choices = (value,) if isinstance(value, str) else tuple(value)
    if not choices or len(set(choices)) < len(choices) or not set(choices) <= set(known):
        raise InputError(f"{name} must be one or more of {', '.join(known)}, each once, got {list(choices)}")
    return choices


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
