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
from thalweg.decompose.answers import Answer
from thalweg.decompose.edits import TokenSequence, batch_tensors, token_batches
from thalweg.errors import ModelError


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


@dataclass(eq=False)
class Scorer:
    """The answers of one example's edited inputs. Each distinct input runs once; `requests` counts repeats as well."""

    model: PreTrainedModel
    answer: Answer
    pad_id: int
    requests: int = 0
    answers: dict[TokenSequence, float] = field(default_factory=dict)

    def __call__(self, inputs: Sequence[TokenSequence]) -> Float[np.ndarray, " input"]:
        """One number per input, in the same order."""
        self.requests += len(inputs)
        new = {sequence for sequence in inputs if sequence not in self.answers}
        by_length = sorted(new, key=lambda sequence: (len(sequence), sequence.ids, sequence.hidden))
        outputs = 1
        if by_length and by_length[0].answer_position is not None:  # every position has logits over a vocabulary
            outputs = self.model.config.get_text_config().vocab_size
        for batch in token_batches(by_length, outputs):
            values = self.answer.of(answer_logits(self.model, batch, self.pad_id)).tolist()
            if not np.isfinite(values).all():
                raise ModelError("NaN or infinite logits for an edited input")
            self.answers.update(zip(batch, values, strict=True))
        return np.array([self.answers[sequence] for sequence in inputs], dtype=np.float64)


@torch.no_grad()
def answer_logits(
    model: PreTrainedModel, inputs: Sequence[TokenSequence], pad_id: int
) -> Float[Tensor, "input output"]:
    """The logits that the answer is read from: a classifier's, or those at the answer position."""
    logits = model(**arguments_of(model, batch_tensors(inputs, pad_id, model.device))).logits
    if logits.dim() == 2:
        return logits
    positions = [
        len(sequence) - 1 if sequence.answer_position is None else sequence.answer_position for sequence in inputs
    ]
    device = logits.device
    return logits[torch.arange(len(inputs), device=device), torch.tensor(positions, device=device)]
