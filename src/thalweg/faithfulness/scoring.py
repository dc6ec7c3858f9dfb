"""What a model says to edited inputs: in batches, each input once, and the cost counted in passes of one example."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from thalweg.capture.run import arguments_of
from thalweg.errors import ModelError
from thalweg.faithfulness.operators import Reading

BATCH_TOKENS = 4096  # padded tokens that run at once
BATCH_LOGITS = 2**26  # numbers that a language model may return at once: 256 MB in float32


@dataclass(eq=False)
class Meter:
    """Forward passes of one example each: a batch of eight is eight."""

    passes: int = 0


@contextmanager
def metered(model: nn.Module) -> Iterator[Meter]:
    """Count every pass of the model in here, whoever asks for it, also those that end before the last layer."""
    meter = Meter()

    def count(_: nn.Module, arguments: tuple, named: dict) -> None:
        given = [value for value in (*arguments, *named.values()) if isinstance(value, Tensor) and value.dim() > 1]
        meter.passes += len(given[0]) if given else 1

    handle = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield meter
    finally:
        handle.remove()


@dataclass(frozen=True)
class Answer:
    """The number that is explained: the probability of an output, or how far it is above that of another, the foil."""

    output: int
    foil: int | None = None

    def of(self, logits: Float[Tensor, "input output"]) -> Float[Tensor, " input"]:
        """In double precision, differentiable."""
        chances = logits.double().softmax(-1)
        value = chances[:, self.output]
        return value if self.foil is None else value - chances[:, self.foil]


@dataclass(eq=False)
class Scorer:
    """The answer of one example's edited inputs. What was asked before is not run again."""

    model: PreTrainedModel
    answer: Answer
    pad: int
    asked: int = 0
    kept: dict[Reading, float] = field(default_factory=dict)

    def __call__(self, readings: Sequence[Reading]) -> Float[np.ndarray, " reading"]:
        """One number for each, in their order."""
        self.asked += len(readings)
        new = sorted({one for one in readings if one not in self.kept}, key=lambda one: (len(one), one.ids, one.hidden))
        for batch in _batches(new, self._tokens_at_once(new)):
            found = self.answer.of(logits_of(self.model, batch, self.pad)).tolist()
            if not np.isfinite(found).all():
                raise ModelError("NaN or infinite logits for an edited input")
            self.kept.update(zip(batch, found, strict=True))
        return np.array([self.kept[one] for one in readings], dtype=np.float64)

    def _tokens_at_once(self, readings: Sequence[Reading]) -> int:
        """Fewer where every position has logits for a whole vocabulary."""
        if not readings or readings[0].read is None:
            return BATCH_TOKENS
        return min(BATCH_TOKENS, BATCH_LOGITS // self.model.config.get_text_config().vocab_size)


def _batches(readings: Sequence[Reading], tokens: int) -> Iterator[list[Reading]]:
    """Inputs from short to long, in batches of so many padded tokens, or of one input."""
    batch: list[Reading] = []
    for one in readings:
        if batch and (len(batch) + 1) * len(one) > tokens:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def as_tensors(model: PreTrainedModel, readings: Sequence[Reading], pad: int) -> dict[str, Tensor]:
    """Right-padded, as the model takes them."""
    longest = max(map(len, readings))

    def stacked(rows: list[list[int]], filling: int) -> Tensor:
        return torch.tensor([row + [filling] * (longest - len(row)) for row in rows], device=model.device)

    seen = [[int(not hidden) for hidden in one.hidden] or [1] * len(one) for one in readings]
    inputs = {
        "input_ids": stacked([list(one.ids) for one in readings], pad),
        "attention_mask": stacked(seen, 0),
    }
    if readings[0].types is not None:
        inputs["token_type_ids"] = stacked([list(one.types or ()) for one in readings], 0)
    return inputs


@torch.no_grad()
def logits_of(model: PreTrainedModel, readings: Sequence[Reading], pad: int) -> Float[Tensor, "reading output"]:
    """The logits of the answer: a classifier's, or those at the position that is read."""
    inputs = as_tensors(model, readings, pad)
    logits = model(**arguments_of(model, inputs)).logits
    if logits.dim() == 2:
        return logits
    places = torch.tensor([len(one) - 1 if one.read is None else one.read for one in readings], device=logits.device)
    return logits[torch.arange(len(readings), device=logits.device), places]
