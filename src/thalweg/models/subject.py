"""A subject: a model with its tokenizer and task, ready to be captured."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Handler
from thalweg.capture.observe import Pass
from thalweg.capture.record import Capture
from thalweg.capture.run import capture_blocks, check_ready, learn, replay
from thalweg.digests import config_digest, tokenizer_digest, weights_digest
from thalweg.errors import InputError, ModelError
from thalweg.models.encode import Encoded, ModelInput, encode
from thalweg.models.sample import short_sample
from thalweg.models.tasks import Task
from thalweg.tokens import Tokens, anonymous
from thalweg.version import __version__


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with its tokenizer and task; `capture` records one forward pass of it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    task: Task
    name: str
    _anatomies: dict[frozenset[str], Anatomy] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @overload
    def capture(self, inputs: str, target_text: str | None = None) -> Capture: ...
    @overload
    def capture(self, inputs: ModelInput, target_text: Any = None) -> Capture | list[Capture]: ...
    def capture(self, inputs: ModelInput, target_text: Any = None) -> Capture | list[Capture]:
        """Run the model once and return a verified record of the forward pass.

        A text, a pair of texts (a tuple), token ids or the tokenizer's output for one example give one `Capture`; a
        list of texts or a batch gives a list. Padding is removed, so that every example has the numbers it would have
        alone. An encoder-decoder reads `target_text` in its decoder.

        >>> import thalweg as tw
        >>> capture = tw.load().capture("a gorgeous, witty, seductive movie.")
        >>> len(capture.blocks), capture.blocks[0].parity < 1e-5
        (4, True)
        """
        check_ready(self.model)
        encoded = encode(self.model, self.tokenizer, inputs, target_text)
        anatomy = self.anatomy(encoded)
        examples, result = capture_blocks(self.model, encoded.inputs, anatomy, encoded.lengths)
        logits = result.get("logits")
        if logits is not None and not logits.isfinite().all():
            raise ModelError("NaN or infinite logits, though attention is finite: check the model's last layers")
        captures = [
            self._capture(encoded, anatomy, number, tuple(blocks), logits) for number, blocks in enumerate(examples)
        ]
        return captures[0] if encoded.single else captures

    def capture_one(self, text: ModelInput | Capture) -> Capture:
        """The capture of a single example; a capture is returned unchanged."""
        capture = text if isinstance(text, Capture) else self.capture(text)
        if not isinstance(capture, Capture):
            raise InputError("expected one example, got a batch: capture a list of texts with subject.capture(texts)")
        return capture

    def output_name(self, output: int | None) -> str | None:
        """The label of a class, or the text of a token."""
        if output is None:
            return None
        if self.task.endswith("classification"):
            labels: Mapping[int, str] = getattr(self.model.config, "id2label", None) or {}
            return labels.get(output, str(output))
        return str(self.tokenizer.decode([output])) if self.tokenizer else str(output)

    def anatomy(self, encoded: Encoded) -> Anatomy:
        """The wiring of the model, learnt from a short pass on first use."""
        kind = frozenset(encoded.inputs)
        with self._lock:
            if kind not in self._anatomies:
                self._anatomies[kind] = learn(self.model, short_sample(encoded.inputs))
            return self._anatomies[kind]

    def identity(self) -> dict[str, Any]:
        """Digests of everything about the model that results depend on."""
        return {
            "weights": weights_digest(self.model),
            "config": config_digest(self.model.config),
            "tokenizer": None if self.tokenizer is None else tokenizer_digest(self.tokenizer),
            "task": self.task,
            "dtype": self.provenance["dtype"],
        }

    @property
    def provenance(self) -> dict[str, str]:
        """The origin of a result: the model's name, class, task and precision, and the versions that ran it."""
        return {
            "model": self.name,
            "class": type(self.model).__name__,
            "task": self.task,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "thalweg": __version__,
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        }

    def _capture(
        self, encoded: Encoded, anatomy: Anatomy, number: int, blocks: tuple, logits: Tensor | None
    ) -> Capture:
        """The capture of example `number` of a batch."""
        tokens = _tokens(encoded, number, blocks)
        inputs = {name: value[number : number + 1] for name, value in encoded.inputs.items()}
        if logits is not None:
            logits = logits[number]
            if logits.dim() == 2:  # [position output], padding cut off
                logits = logits[: blocks[-1].queries.stop - blocks[-1].queries.start]
        return Capture(
            tokens=tokens,
            blocks=blocks,
            logits=logits,
            readout=self._readout(anatomy, tokens, blocks),
            provenance=self.provenance,
            replay=partial(self._replay, anatomy, inputs),
        )

    def _replay(self, anatomy: Anatomy, inputs: dict[str, Tensor], handle: Handler, copies: int = 1) -> Pass:
        check_ready(self.model)
        batch = {name: value.repeat(copies, *(1,) * (value.dim() - 1)) for name, value in inputs.items()}
        return replay(self.model, batch, anatomy, handle)

    def _readout(self, anatomy: Anatomy, tokens: Tokens, blocks: tuple) -> tuple[int, ...]:
        """The positions that the prediction is read from; none if the model makes no single prediction."""
        places = range(blocks[-1].queries.start, blocks[-1].queries.stop)
        if self.task in ("causal_lm", "seq2seq", "speech_seq2seq"):
            return (places[-1],)
        if self.task == "masked_lm":
            mask = self.tokenizer.mask_token_id if self.tokenizer else None
            return tuple(p for p in places if mask is not None and tokens.ids[p] == mask)
        if anatomy.pooling == "all":
            return tuple(places)
        if anatomy.pooling is None:
            return ()
        return (places[0] if anatomy.pooling == "first" else places[-1],)


def _tokens(encoded: Encoded, number: int, blocks: tuple) -> Tokens:
    """The tokens of an example, source before target; patches and frames are numbered."""
    source = encoded.source[number] if encoded.source else None
    target = encoded.target[number] if encoded.target else None
    length = blocks[0].queries.stop
    if any(block.role != "self" for block in blocks):
        count = blocks[-1].queries.stop - blocks[-1].queries.start
        return (source or anonymous(length)) + (target or anonymous(count))
    return target if target and len(target) == length else anonymous(length)
