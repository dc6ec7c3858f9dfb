"""The sizes of a model that decide how much memory a batch takes."""

from dataclasses import dataclass
from typing import Any

from thalweg.models.subject import Subject
from thalweg.numerics import working

BATCH_BYTES = 2**29  # of a batch of more than one text, at most


@dataclass(frozen=True)
class ModelSizes:
    """What the memory of a forward pass depends on; `number_bytes` is the size of a number in the working precision."""

    layers: int
    width: int
    heads: int
    logits: int  # per position; 0 for models that predict once per text
    number_bytes: int

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a batch for each of its tokens."""
        return self.number_bytes * (14 * self.layers * self.width + 16 * self.width + 4 * self.logits)


def sizes_of(subject: Subject) -> ModelSizes:
    """Read the sizes from the model's config; a layer of an encoder-decoder counts as three attention blocks."""
    config: Any = subject.model.config
    text_config = config.get_text_config()
    blocks = 3 if getattr(config, "is_encoder_decoder", False) else 1
    every_position = subject.task in ("masked_lm", "causal_lm", "seq2seq", "token_classification")
    return ModelSizes(
        layers=blocks * getattr(text_config, "num_hidden_layers", 12),
        width=getattr(text_config, "hidden_size", 1024),
        heads=getattr(text_config, "num_attention_heads", 16),
        logits=getattr(text_config, "vocab_size", 0) if every_position else 0,
        number_bytes=working(subject.model.dtype).itemsize,
    )


def max_batch_tokens(sizes: ModelSizes, limit: int) -> int:
    """How many tokens a batch may have: `limit`, or fewer if they would not fit into `BATCH_BYTES`."""
    return max(1, min(limit, BATCH_BYTES // sizes.bytes_per_token))
