"""What is asked of a training: the sizes of the model, and how it learns."""

from dataclasses import dataclass, replace
from typing import Any

from thalweg.encoders.attention import Combine
from thalweg.errors import InputError

WIDTH, HEADS, LAYERS, LENGTH = 128, 4, 1, 512  # of a model that starts from nothing
VOCABULARY, SHARE = 8000, 0.1
SHORTEST = 8  # tokens that a capture learns a model's wiring from
RATE, RATE_INHERITED = 1e-3, 1e-4  # weights that know something already are moved less


@dataclass(frozen=True)
class TrainingPlan:
    """The choices of a run, checked before anything long begins.

    What is left out: `key_size` and `value_size` follow from width, heads and `combine`; `layers`, `heads`, `width`
    and `max_length` (tokens of a text, special ones among them; the rest is cut) are those of the model to start
    from, or small; `rate`, the peak of the learning rate, is lower for a model that starts from another.
    `vocabulary` is how many pieces a tokenizer learns at most, `batch_tokens` how many tokens, padding among them,
    run at once, `patience` how many epochs in a row may bring nothing better before the run stops.
    """

    combine: Combine = "add"
    key_size: int | None = None
    value_size: int | None = None
    layers: int | None = None
    heads: int | None = None
    width: int | None = None
    max_length: int | None = None
    vocabulary: int = VOCABULARY
    validation_share: float = SHARE
    epochs: int = 10
    patience: int = 3
    batch_tokens: int = 1024
    rate: float | None = None
    dropout: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("layers", 1), ("heads", 1), ("width", 1), ("max_length", SHORTEST)):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), least)
        for name, least in (("vocabulary", 100), ("epochs", 1), ("patience", 1), ("batch_tokens", 1)):
            _check_whole(name, getattr(self, name), least)
        if not _number(self.validation_share) or not 0 < self.validation_share < 1:
            raise InputError(
                f"validation_share was given {self.validation_share!r}; expected a share of the examples between 0 and "
                "1, such as 0.1"
            )
        if self.rate is not None and (not _number(self.rate) or not 0 < self.rate < float("inf")):
            raise InputError(f"rate was given {self.rate!r}; expected a learning rate above 0, such as 0.001")
        if not _number(self.dropout) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout was given {self.dropout!r}; expected a share from 0 to below 1")
        if not _whole(self.seed):
            raise InputError(f"seed was given {self.seed!r}; expected a whole number")

    def settled(self, inherited: bool, positions: int | None) -> "TrainingPlan":
        """With the length and the rate chosen that were left out; `positions` is how many the source has."""
        longest = LENGTH if positions is None else min(LENGTH, positions)
        if positions is not None and self.max_length is not None and self.max_length > positions:
            raise InputError(
                f"max_length was given {self.max_length}, but the model to start from has positions for {positions}"
            )
        rate = self.rate if self.rate is not None else (RATE_INHERITED if inherited else RATE)
        return replace(self, max_length=self.max_length or longest, rate=float(rate))


def _check_whole(name: str, given: Any, least: int) -> None:
    if not _whole(given) or given < least:
        raise InputError(f"{name} was given {given!r}; expected a whole number from {least}")


def _whole(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _number(given: Any) -> bool:
    return _whole(given) or isinstance(given, float)
