"""Options of a training run: the sizes of the model, and how it is trained."""

from dataclasses import dataclass, replace
from typing import Any

from thalweg.encoders.attention import Combine, check_integer
from thalweg.errors import InputError

DEFAULT_WIDTH, DEFAULT_HEADS, DEFAULT_LAYERS, DEFAULT_TOKENS = 128, 4, 1, 512  # of a model trained from scratch
DEFAULT_VOCABULARY, DEFAULT_VALIDATION_SHARE = 8000, 0.1
MIN_TOKENS = 8  # a capture needs as many to learn a model's wiring
RATE, RATE_INHERITED = 1e-3, 1e-4  # inherited weights are changed less


@dataclass(frozen=True)
class TrainingPlan:
    """Options of a training run, validated before training starts.

    Defaults: `key_size` and `value_size` follow from width, heads and `combine`; `layers`, `heads`, `width` and
    `max_length` (tokens per text including special tokens; longer texts are truncated) are those of the initial model,
    or small; `rate`, the peak learning rate, is lower for an initial model. `vocabulary` is the largest vocabulary of
    a learnt tokenizer, `batch_tokens` the number of tokens per batch including padding, and `patience` the number of
    epochs without improvement after which training stops.
    """

    combine: Combine = "add"
    key_size: int | None = None
    value_size: int | None = None
    layers: int | None = None
    heads: int | None = None
    width: int | None = None
    max_length: int | None = None
    vocabulary: int = DEFAULT_VOCABULARY
    validation_share: float = DEFAULT_VALIDATION_SHARE
    epochs: int = 10
    patience: int = 3
    batch_tokens: int = 1024
    rate: float | None = None
    dropout: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("layers", 1), ("heads", 1), ("width", 1), ("max_length", MIN_TOKENS)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least)
        for name, least in (("vocabulary", 100), ("epochs", 1), ("patience", 1), ("batch_tokens", 1)):
            check_integer(name, getattr(self, name), least)
        if not _is_number(self.validation_share) or not 0 < self.validation_share < 1:
            raise InputError(f"validation_share must be above 0 and below 1, got {self.validation_share!r}")
        if self.rate is not None and (not _is_number(self.rate) or not 0 < self.rate < float("inf")):
            raise InputError(f"rate must be a finite learning rate above 0, such as 0.001, got {self.rate!r}")
        if not _is_number(self.dropout) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be at least 0 and below 1, got {self.dropout!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"seed must be an integer, got {self.seed!r}")

    def settled(self, inherited: bool, positions: int | None) -> "TrainingPlan":
        """Fill in length and rate; `positions` is the number of positions of the initial model."""
        longest = DEFAULT_TOKENS if positions is None else min(DEFAULT_TOKENS, positions)
        if positions is not None and self.max_length is not None and self.max_length > positions:
            raise InputError(
                f"max_length must be at most {positions}, the positions of the initial model, got {self.max_length}"
            )
        rate = self.rate if self.rate is not None else (RATE_INHERITED if inherited else RATE)
        return replace(self, max_length=self.max_length or longest, rate=float(rate))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
