"""How much memory a run takes beside the model and the libraries: a bound, from the model's sizes and what is asked.

    batch   tokens · (14 · layers · width + 16 · width + 4 · vocabulary)   what a pass leaves, and what is cut out of it
    text    layers · n² · (7 + methods) + 10 · min(heads · n², 2²³)        maps of a text, weights of one layer
    shard   rows · methods · (600 + 350 · top) bytes, and of each text layers · (800 · heads + 600 · methods), twice

Numbers have 4 bytes, or 8 in double precision; n is the longest text allowed. None of it knows how long the file is.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thalweg.capture.record import BLOCK_ELEMENTS
from thalweg.corpus.shards import CHARACTERS
from thalweg.models.load import Subject
from thalweg.numerics import working

if TYPE_CHECKING:
    from thalweg.corpus.job import Job

BATCH = 2**29  # bytes that a batch may take, if it has more than one text
ALWAYS = 2**27  # bytes for what is held between steps: tables under way, and what an allocator does not give back


@dataclass(frozen=True)
class Sizes:
    """What a model's passes are made of; `number` is the bytes of one number in the precision that is worked in."""

    layers: int
    width: int
    heads: int
    outputs: int  # logits of each position, where every position has some
    number: int

    @property
    def per_token(self) -> int:
        """Bytes of a batch for each of its tokens."""
        return self.number * (14 * self.layers * self.width + 16 * self.width + 4 * self.outputs)


def sizes_of(subject: Subject) -> Sizes:
    """As the model's configuration says; of an encoder-decoder a layer has up to three attention blocks."""
    config: Any = subject.model.config
    text = config.get_text_config()
    blocks = 3 if getattr(config, "is_encoder_decoder", False) else 1
    every_position = subject.task in ("masked_lm", "causal_lm", "seq2seq", "token_classification")
    return Sizes(
        layers=blocks * getattr(text, "num_hidden_layers", 12),
        width=getattr(text, "hidden_size", 1024),
        heads=getattr(text, "num_attention_heads", 16),
        outputs=getattr(text, "vocab_size", 0) if every_position else 0,
        number=working(subject.model.dtype).itemsize,
    )


def tokens_at_once(sizes: Sizes, most: int) -> int:
    """How many tokens a batch may have."""
    return max(1, min(most, BATCH // sizes.per_token))


def bound(subject: Subject, job: "Job", shard: int) -> int:
    """Bytes that a run takes at most beside the model, with so many texts in a shard."""
    sizes, longest, methods = sizes_of(subject), job.max_tokens, max(1, len(job.methods))
    square = longest**2
    batch = max(job.tokens, longest) * sizes.per_token
    text = sizes.layers * square * (7 + methods) + 10 * min(sizes.heads * square, BLOCK_ELEMENTS)
    if job.certificate == "full":
        text += 4 * BLOCK_ELEMENTS
    rows = min(shard * _targets(subject, job), max(shard, CHARACTERS))
    heads = sizes.heads * 800 if job.certificate else 0
    written = rows * methods * (600 + 350 * job.top) + shard * sizes.layers * (heads + methods * 600)
    maps = 4 * methods * rows * longest if job.maps else 0
    return batch + sizes.number * text + 2 * written + maps + 4 * CHARACTERS + ALWAYS


def _targets(subject: Subject, job: "Job") -> int:
    """Rows of a text at most."""
    if isinstance(job.target, tuple):
        return len(job.target)
    single = job.target in (None, "prediction") and subject.task in ("classification", "causal_lm", "seq2seq")
    return 1 if single or isinstance(job.target, int) else job.max_tokens
