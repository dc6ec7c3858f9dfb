"""Load a model, or take the one the user has, as a `Subject` that can be captured."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import thalweg.encoders  # noqa: F401 - registers its models with AutoModel
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Handler
from thalweg.capture.observe import Pass
from thalweg.capture.record import Capture
from thalweg.capture.run import capture_blocks, check_ready, learn, replay
from thalweg.digests import config_digest, tokenizer_digest, weights_digest
from thalweg.errors import InputError, ModelError
from thalweg.models.encode import Encoded, ModelInput, encode
from thalweg.tokens import Tokens, anonymous
from thalweg.version import __version__

Task = Literal[
    "classification",
    "token_classification",
    "masked_lm",
    "causal_lm",
    "seq2seq",
    "image_classification",
    "speech_seq2seq",
    "encoder",
]
AUTO_CLASSES: dict[Task, str] = {
    "classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
    "masked_lm": "AutoModelForMaskedLM",
    "causal_lm": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "image_classification": "AutoModelForImageClassification",
    "speech_seq2seq": "AutoModelForSpeechSeq2Seq",
    "encoder": "AutoModel",
}
HEADS: dict[str, Task] = {
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token_classification",
    "ForMaskedLM": "masked_lm",
    "ForPreTraining": "masked_lm",
    "ForCausalLM": "causal_lm",
    "LMHeadModel": "causal_lm",
    "ForConditionalGeneration": "seq2seq",
    "MTModel": "seq2seq",
    "ForImageClassification": "image_classification",
}
DEFAULT_FOLDER, DEFAULT_NAME = Path(__file__).parent / "default", "thalweg-default"
LEARNING_TOKENS = 8
HUB_OPTIONS = (
    "trust_remote_code",
    "revision",
    "token",
    "cache_dir",
    "local_files_only",
    "subfolder",
    "gguf_file",
)


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with its tokenizer and its task; `capture` records one pass of it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    task: Task
    name: str
    _anatomies: dict[frozenset[str], Anatomy] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @overload
    def capture(self, given: str, target_text: str | None = None) -> Capture: ...
    @overload
    def capture(self, given: ModelInput, target_text: Any = None) -> Capture | list[Capture]: ...
    def capture(self, given: ModelInput, target_text: Any = None) -> Capture | list[Capture]:
        """Run the model once on what is given and return a verified record of the pass.

        A text, a pair of texts (a tuple), token ids or a tokenizer's output of one example give one
        `Capture`; a list of texts or a batch gives a list of them. Every example has the numbers it
        would have alone: padding is cut away. An encoder-decoder reads `target_text` in its decoder.

        >>> import thalweg as tw
        >>> capture = tw.load().capture("a gorgeous, witty, seductive movie.")
        >>> len(capture.blocks), capture.blocks[0].parity < 1e-5
        (4, True)
        """
        check_ready(self.model)
        encoded = encode(self.model, self.tokenizer, given, target_text)
        anatomy = self.anatomy(encoded)
        examples, result = capture_blocks(self.model, encoded.inputs, anatomy, encoded.lengths)
        logits = result.get("logits")
        if logits is not None and not logits.isfinite().all():
            raise ModelError("NaN or infinite logits, though attention is finite: check the model's last layers")
        captures = [
            self._capture(encoded, anatomy, number, tuple(blocks), result) for number, blocks in enumerate(examples)
        ]
        return captures[0] if encoded.single else captures

    def capture_one(self, text: ModelInput | Capture) -> Capture:
        """The capture of a single example; a capture is returned unchanged."""
        capture = text if isinstance(text, Capture) else self.capture(text)
        if not isinstance(capture, Capture):
            raise InputError("expected one example, got a batch: capture a list of texts with subject.capture(texts)")
        return capture

    def output_name(self, output: int | None) -> str | None:
        """An output as a person reads it: the label of a class, or a token's text."""
        if output is None:
            return None
        if self.task.endswith("classification"):
            labels: Mapping[int, str] = getattr(self.model.config, "id2label", None) or {}
            return labels.get(output, str(output))
        return str(self.tokenizer.decode([output])) if self.tokenizer else str(output)

    def anatomy(self, encoded: Encoded) -> Anatomy:
        """The model's wiring, learnt from a short pass the first time it is asked for."""
        kind = frozenset(encoded.inputs)
        with self._lock:
            if kind not in self._anatomies:
                self._anatomies[kind] = learn(self.model, _sample(encoded.inputs))
            return self._anatomies[kind]

    def _capture(self, encoded: Encoded, anatomy: Anatomy, number: int, blocks: tuple, result: Any) -> Capture:
        first = blocks[0]
        source = encoded.source[number] if encoded.source else None
        target = encoded.target[number] if encoded.target else None
        if any(block.role != "self" for block in blocks):
            source = source or anonymous(first.queries.stop)
            count = blocks[-1].queries.stop - blocks[-1].queries.start
            tokens = source + (target or anonymous(count))
        else:
            tokens = target if target and len(target) == first.queries.stop else None
            tokens = tokens or anonymous(first.queries.stop)
        inputs = {name: value[number : number + 1] for name, value in encoded.inputs.items()}
        logits = result.get("logits")
        if logits is not None:
            logits = logits[number]
            if logits.dim() == 2:  # [position output]: without what belongs to padding
                last = blocks[-1].queries
                logits = logits[: last.stop - last.start]
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
        """What a result says of its model: name, class, task, precision, and the versions that ran it."""
        return {
            "model": self.name,
            "class": type(self.model).__name__,
            "task": self.task,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "thalweg": __version__,
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        }

    def _readout(self, anatomy: Anatomy, tokens: Tokens, blocks: tuple) -> tuple[int, ...]:
        """The positions that the model's prediction is read from; none where it makes no single one."""
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


def load(
    model: PreTrainedModel | str | Path | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    task: Task | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> Subject:
    """Take a model to explain: the one that ships, a folder or hub name, or a model you already have.

    The task follows from the checkpoint's own class unless `task` says otherwise. Weights are read from
    safetensors only (`use_safetensors=False` allows others) and code from a hub is not run unless
    `trust_remote_code` says so; other options go to `from_pretrained`. A model object is taken as it is:
    put it into `eval()` mode yourself.

    >>> import thalweg as tw
    >>> tw.load().task
    'classification'
    """
    if tokenizer is not None and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"a {type(tokenizer).__name__} was given as the tokenizer; expected a transformers tokenizer")
    if isinstance(dtype, str) and dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise InputError(f"dtype was given {dtype!r}; expected a torch dtype or its name, such as 'bfloat16'")
    if task is not None and task not in AUTO_CLASSES:
        raise InputError(f"unknown task {task!r}; expected one of {', '.join(AUTO_CLASSES)}")
    if isinstance(model, PreTrainedModel):
        if device is not None or dtype is not None or options:
            raise InputError("device, dtype and loading options go with a name or folder; this model is already built")
        own = _task_of(type(model).__name__)
        if task not in (None, own):
            raise InputError(f"this {type(model).__name__} does {own!r}, not {task!r}: leave the task out")
        return Subject(model, tokenizer, own, _name(model))
    if model is not None and not isinstance(model, str | Path):
        raise InputError(
            f"a {type(model).__name__} was given as the model; expected a transformers model, a folder or a hub name"
        )
    name = DEFAULT_NAME if model is None else str(model)
    return _from_checkpoint(
        str(DEFAULT_FOLDER) if name == DEFAULT_NAME else name,
        name,
        tokenizer,
        task,
        device,
        {"dtype": dtype or "auto", "trust_remote_code": trust_remote_code, **options},
    )


def _from_checkpoint(
    source: str,
    name: str,
    tokenizer: PreTrainedTokenizerBase | None,
    task: Task | None,
    device: str | torch.device | None,
    options: dict[str, Any],
) -> Subject:
    source = str(Path(source).expanduser()) if source.startswith("~") else source
    if _looks_like_path(source) and not Path(source).is_dir():
        raise ModelError(f"there is no folder {source!r}; give a model's folder or a hub name")
    hub = {key: options[key] for key in HUB_OPTIONS if key in options}
    try:
        config = AutoConfig.from_pretrained(source, **hub)
        named = (config.architectures or [""])[0]
        task = task or _task_of(named)
        factory = getattr(transformers, AUTO_CLASSES[task])
        model, info = factory.from_pretrained(source, **{"use_safetensors": True, **options}, output_loading_info=True)
        if tokenizer is None and task not in ("image_classification",):
            tokenizer = _tokenizer(source, hub)
        model = model.eval() if device is None else model.to(device).eval()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"cannot load a model from {source!r}: {_first_line(error)} (a hub name needs the network or the local "
            "cache; a folder needs config.json, a tokenizer and safetensors weights, or use_safetensors=False)"
        ) from error
    if named and _task_of(named) != task and task != "encoder":
        raise ModelError(f"the checkpoint {source!r} is a {named}, which does not do {task!r}: choose another task")
    missing = sorted(key for key in info["missing_keys"] if "pooler" not in key or task != "encoder")
    if missing:
        raise ModelError(
            f"the checkpoint {source!r} has no weights for {missing[0]!r}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + f": as {task!r} it would run with random numbers. Choose another task"
        )
    return Subject(model, tokenizer, task, name)


def _tokenizer(source: str, hub: dict[str, Any]) -> PreTrainedTokenizerBase | None:
    folder = Path(source) / hub.get("subfolder", "")
    known = ("*token*", "*vocab*", "*.gguf")
    if Path(source).is_dir() and not any(path for name in known for path in folder.glob(name)):
        return None
    return AutoTokenizer.from_pretrained(source, **hub)


def _looks_like_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.count("/") > 1 or "\\" in source


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _name(model: PreTrainedModel) -> str:
    return model.name_or_path or type(model).__name__


def _task_of(class_name: str) -> Task:
    if class_name.startswith("Whisper") and class_name.endswith("ForConditionalGeneration"):
        return "speech_seq2seq"
    for suffix, task in HEADS.items():
        if class_name.endswith(suffix):
            return task
    return "encoder"


def _sample(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """One example of a few tokens for learning the wiring; pixels and sound stay as they are."""
    real = {
        side: int(inputs[f"{side}attention_mask"][0].sum())
        for side in ("", "decoder_")
        if f"{side}attention_mask" in inputs
    }
    sample = {}
    for name, value in inputs.items():
        if value.is_floating_point() or value.dim() != 2:
            sample[name] = value[:1]
        elif "mask" in name:
            sample[name] = value.new_ones((1, LEARNING_TOKENS))
        else:
            side = "decoder_" if name.startswith("decoder_") else ""
            sample[name] = _resized(value[:1, : real.get(side)], distinct="input_ids" in name)
    return sample


def _resized(row: Tensor, distinct: bool) -> Tensor:
    """The row cut or filled to a few tokens between its first and its last, which may be special."""
    inner = row[:, 1:-1] if row.shape[1] > 2 else row[:, :1]
    wanted = LEARNING_TOKENS - 2
    places = torch.arange(wanted, device=row.device)
    filled = inner[:, places % inner.shape[1]]
    if distinct:  # equal tokens would look alike in a model without positions
        filled = (filled - places // inner.shape[1]).abs()
    return torch.cat([row[:, :1], filled, row[:, -1:]], 1)
