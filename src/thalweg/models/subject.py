"""A subject: a model with its tokenizer and task, ready to be captured."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Handler
from thalweg.capture.fingerprint import fingerprint
from thalweg.capture.observe import Pass
from thalweg.capture.prove.chain import LEVELS
from thalweg.capture.record import Capture, Rerun
from thalweg.capture.run import arguments_of, audit, capture_blocks, check_ready, learn, replay
from thalweg.digests import config_digest, tokenizer_digest, weights_digest
from thalweg.errors import InputError, ModelError, ProofError, unknown_name
from thalweg.models.encode import Encoded, ModelInput, encode
from thalweg.models.padding import blanks_of
from thalweg.models.sample import AUDIT_TOKENS, short_sample
from thalweg.models.tasks import Task
from thalweg.tokens import Tokens, anonymous
from thalweg.version import __version__


@dataclass(frozen=True)
class _Learnt:
    """What is known about a model, as long as its fingerprint stays the same."""

    fingerprint: int
    anatomy: Anatomy
    proved: tuple[str, ...]

    def level(self, chosen: str, tokens: int) -> str:
        """The level of proof: one intervention is too little for long texts if layers treat positions differently."""
        if chosen == "default" and tokens > AUDIT_TOKENS and not self.anatomy.treats_positions_alike:
            return "audit"
        return chosen


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with its tokenizer and task; `capture` records one forward pass of it.

    With `truncate`, texts of more tokens than the model has positions for are cut, and the receipt says so.
    """

    model: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerBase | None = field(repr=False)
    task: Task
    name: str
    truncate: bool = False
    _learnt: dict[frozenset[str], _Learnt] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @overload
    def capture(self, inputs: str, target_text: str | None = None, level: str = "default") -> Capture: ...
    @overload
    def capture(
        self, inputs: ModelInput, target_text: Any = None, level: str = "default"
    ) -> Capture | list[Capture]: ...
    @torch.inference_mode(False)
    def capture(self, inputs: ModelInput, target_text: Any = None, level: str = "default") -> Capture | list[Capture]:
        """Run the model once and return a verified record of the forward pass.

        A text, a pair of texts (a tuple), token ids or the tokenizer's output for one example give one `Capture`; a
        list of texts or a batch gives a list. Padding is removed, so that every example has the numbers it would have
        alone. An encoder-decoder reads `target_text` in its decoder.

        By default the pass is run a second time, with other tokens and states, to prove that only attention carries
        information between positions and layers. At the level "audit" this is done for all pairs of positions and
        layers, in about 2 log₂ n passes of n tokens; at the level "quick" not at all, so that only what was proved when
        the model was learnt is known.

        >>> import thalweg as tw
        >>> capture = tw.load().capture("a gorgeous, witty, seductive movie.")
        >>> len(capture.blocks), capture.blocks[0].parity < 1e-5
        (4, True)
        """
        check_ready(self.model)
        if level not in LEVELS:
            raise InputError(f"level must be one of {', '.join(LEVELS)}, got {level!r}")
        encoded = self.encode(inputs, target_text)
        learnt = self._learn(encoded)
        level = learnt.level(level, encoded.longest)
        examples, result = capture_blocks(self.model, encoded.inputs, learnt.anatomy, encoded.lengths, level)
        logits = result.get("logits")
        if logits is not None and not logits.isfinite().all():
            raise ModelError("NaN or infinite logits, though attention is finite: check the model's last layers")
        captures = [
            self._capture(encoded, learnt, number, tuple(blocks), logits) for number, blocks in enumerate(examples)
        ]
        return captures[0] if encoded.single else captures

    def encode(self, inputs: ModelInput, target_text: Any = None) -> Encoded:
        """Check the input and convert it to a batch, without running the model."""
        return encode(self.model, self.tokenizer, inputs, target_text, self.truncate)

    def capture_one(self, text: ModelInput | Capture, target_text: str | None = None) -> Capture:
        """The capture of a single example; a capture is returned unchanged."""
        capture = text if isinstance(text, Capture) else self.capture(text, target_text)
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

    def output_number(self, name: str) -> int:
        """The class with this label, or the id of the token with this text."""
        if self.task.endswith("classification"):
            labels: Mapping[int, str] = getattr(self.model.config, "id2label", None) or {}
            matches = [number for number, label in labels.items() if label.lower() == name.lower()]
            matches = [number for number in matches if labels[number] == name] or matches
            if len(matches) != 1:
                raise unknown_name("class", name, labels.values())
            return matches[0]
        if self.tokenizer is None:
            raise InputError(f"the token {name!r} cannot be looked up without a tokenizer: use its id")
        ids = self.tokenizer(name, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id:
            pieces = " ".join(self.tokenizer.convert_ids_to_tokens(ids))
            raise InputError(f"{name!r} is not a single token of this tokenizer ({pieces}): use a token id")
        return ids[0]

    def anatomy(self, encoded: Encoded) -> Anatomy:
        """The wiring of the model, learnt from a short pass on first use."""
        return self._learn(encoded).anatomy

    def _learn(self, encoded: Encoded) -> _Learnt:
        """What is known about the model; learnt on first use, and again after the model was changed."""
        kind, current = frozenset(encoded.inputs), fingerprint(self.model)
        with self._lock:
            known = self._learnt.get(kind)
            if known is None or known.fingerprint != current:
                anatomy = self._learn_wiring(encoded, known)
                anatomy, chain = audit(self.model, short_sample(encoded.inputs, AUDIT_TOKENS), anatomy)
                known = self._learnt[kind] = _Learnt(current, anatomy, (chain,))
            return known

    def _learn_wiring(self, encoded: Encoded, before: _Learnt | None) -> Anatomy:
        """The anatomy of the model; that of before if nothing can be found any more, such as with values of zero.

        Either is proved afterwards, by an audit and on every capture.
        """
        try:
            return learn(self.model, short_sample(encoded.inputs))
        except ProofError:
            if before is None:
                raise
            return replace(before.anatomy, positional=None)

    def identity(self) -> dict[str, Any]:
        """Digests of everything about the model that results depend on."""
        return {
            "weights": weights_digest(self.model),
            "config": config_digest(self.model.config),
            "tokenizer": None if self.tokenizer is None else tokenizer_digest(self.tokenizer),
            "task": self.task,
            "dtype": self.provenance["dtype"],
            **({"truncate": True} if self.truncate else {}),
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

    def _capture(self, encoded: Encoded, learnt: _Learnt, number: int, blocks: tuple, logits: Tensor | None) -> Capture:
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
            readout=self._readout(learnt.anatomy, tokens, blocks),
            learnt=learnt.proved,
            assumed=(*_assumed(encoded, number), *tokens.warnings()),
            provenance=self.provenance,
            replay=partial(self._replay, learnt.anatomy, inputs),
            rerun=Rerun(inputs, blanks_of(self.model, self.tokenizer), self._run),
        )

    def _replay(
        self,
        anatomy: Anatomy,
        own: Mapping[str, Tensor],
        handle: Handler,
        copies: int = 1,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Pass:
        check_ready(self.model)
        batch = {name: value.repeat(copies, *(1,) * (value.dim() - 1)) for name, value in (inputs or own).items()}
        return replay(self.model, batch, anatomy, handle)

    def _run(self, inputs: Mapping[str, Tensor]) -> Any:
        check_ready(self.model)
        return self.model(**arguments_of(self.model, inputs))

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
        if anatomy.pooling in (None, "other"):
            return ()
        return (places[0] if anatomy.pooling == "first" else places[-1],)


def _assumed(encoded: Encoded, number: int) -> tuple[str, ...]:
    """The assumptions behind every result for inputs that are no tokens, and for a text that was cut."""
    others = [name for name in encoded.inputs if name in ("pixel_values", "input_features", "inputs_embeds")]
    notes = tuple(f"how the states before the first block follow from {name} was not checked" for name in others)
    if not any(encoded.cut[number : number + 1]):
        return notes
    kept = int(encoded.inputs["attention_mask"][number].sum())
    return (*notes, f"the text was cut from {encoded.cut[number]} to {kept} tokens, the positions of the model")


def _tokens(encoded: Encoded, number: int, blocks: tuple) -> Tokens:
    """The tokens of an example, source before target; patches and frames are numbered."""
    source = encoded.source[number] if encoded.source else None
    target = encoded.target[number] if encoded.target else None
    length = blocks[0].queries.stop
    if any(block.role != "self" for block in blocks):
        count = blocks[-1].queries.stop - blocks[-1].queries.start
        return (source or anonymous(length)) + (target or anonymous(count))
    return target if target and len(target) == length else anonymous(length)
