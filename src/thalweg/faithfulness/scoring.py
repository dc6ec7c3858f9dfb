"""Scores of edited inputs: batched, cached per example, with their cost in forward passes."""

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
from thalweg.faithfulness.operators import TokenSequence

BATCH_TOKENS = 4096  # padded tokens per batch
BATCH_LOGITS = 2**26  # logits per batch of a language model: 256 MB in float32


@dataclass(eq=False)
class Meter:
    """Number of forward passes, counted per example: a batch of eight counts eight."""

    passes: int = 0


@contextmanager
def count_passes(*models: nn.Module) -> Iterator[Meter]:
    """Count every pass of these models inside the context, including those that stop before the last layer."""
    meter = Meter()

    def count(_: nn.Module, arguments: tuple, named: dict) -> None:
        batches = [value for value in (*arguments, *named.values()) if isinstance(value, Tensor) and value.dim() > 1]
        meter.passes += len(batches[0]) if batches else 1

    distinct = {id(model): model for model in models}.values()
    handles = [model.register_forward_pre_hook(count, with_kwargs=True) for model in distinct]
    try:
        yield meter
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class AnswerProbability:
    """The explained number: the probability of an output, minus that of the foil if there is one."""

    output: int
    foil: int | None = None

    def of(self, logits: Float[Tensor, "input output"]) -> Float[Tensor, " input"]:
        """In double precision, differentiable."""
        probabilities = logits.double().softmax(-1)
        value = probabilities[:, self.output]
        return value if self.foil is None else value - probabilities[:, self.foil]


@dataclass(eq=False)
class Scorer:
    """The answers of one example's edited inputs. Each distinct input runs once; `requests` counts repeats as well."""

    model: PreTrainedModel
    answer: AnswerProbability
    pad_id: int
    requests: int = 0
    answers: dict[TokenSequence, float] = field(default_factory=dict)

    def __call__(self, inputs: Sequence[TokenSequence]) -> Float[np.ndarray, " input"]:
        """One number per input, in the same order."""
        self.requests += len(inputs)
        new = {sequence for sequence in inputs if sequence not in self.answers}
        by_length = sorted(new, key=lambda sequence: (len(sequence), sequence.ids, sequence.hidden))
        for batch in _batches(by_length, self._batch_tokens(by_length)):
            values = self.answer.of(answer_logits(self.model, batch, self.pad_id)).tolist()
            if not np.isfinite(values).all():
                raise ModelError("NaN or infinite logits for an edited input")
            self.answers.update(zip(batch, values, strict=True))
        return np.array([self.answers[sequence] for sequence in inputs], dtype=np.float64)

    def _batch_tokens(self, inputs: Sequence[TokenSequence]) -> int:
        """Fewer tokens per batch if every position has logits over a vocabulary."""
        if not inputs or inputs[0].answer_position is None:
            return BATCH_TOKENS
        return min(BATCH_TOKENS, BATCH_LOGITS // self.model.config.get_text_config().vocab_size)


def _batches(by_length: Sequence[TokenSequence], max_tokens: int) -> Iterator[list[TokenSequence]]:
    """Batches of at most `max_tokens` padded tokens; a longer input is a batch of its own."""
    batch: list[TokenSequence] = []
    for sequence in by_length:
        if batch and (len(batch) + 1) * len(sequence) > max_tokens:
            yield batch
            batch = []
        batch.append(sequence)
    if batch:
        yield batch


def batch_tensors(model: PreTrainedModel, inputs: Sequence[TokenSequence], pad_id: int) -> dict[str, Tensor]:
    """A right-padded batch as the model's keyword arguments."""
    longest = max(map(len, inputs))

    def padded(rows: list[list[int]], fill: int) -> Tensor:
        return torch.tensor([row + [fill] * (longest - len(row)) for row in rows], device=model.device)

    visible = [[int(not hidden) for hidden in sequence.hidden] or [1] * len(sequence) for sequence in inputs]
    tensors = {
        "input_ids": padded([list(sequence.ids) for sequence in inputs], pad_id),
        "attention_mask": padded(visible, 0),
    }
    if inputs[0].type_ids is not None:
        tensors["token_type_ids"] = padded([list(sequence.type_ids or ()) for sequence in inputs], 0)
    return tensors


@torch.no_grad()
def answer_logits(
    model: PreTrainedModel, inputs: Sequence[TokenSequence], pad_id: int
) -> Float[Tensor, "input output"]:
    """The logits that the answer is read from: a classifier's, or those at the answer position."""
    logits = model(**arguments_of(model, batch_tensors(model, inputs, pad_id))).logits
    if logits.dim() == 2:
        return logits
    positions = [
        len(sequence) - 1 if sequence.answer_position is None else sequence.answer_position for sequence in inputs
    ]
    device = logits.device
    return logits[torch.arange(len(inputs), device=device), torch.tensor(positions, device=device)]
