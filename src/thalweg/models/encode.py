"""Whatever a user hands in, as one right-padded batch of tensors and the tokens of each example.

Padding goes to the right whatever side it came from: with absolute positions a left-padded example would
otherwise get other numbers than when it is run alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from thalweg.capture.run import Lengths
from thalweg.errors import InputError
from thalweg.tokens import Tokens

Tokenizer = Any  # which options a tokenizer takes by name depends on its class
AXES = {"pixel_values": 4, "input_features": 3, "input_values": 2}
NOT_FOR_THE_MODEL = {"offset_mapping", "special_tokens_mask", "overflow_to_sample_mapping", "length"}
ModelInput = str | tuple[str, str] | Sequence[Any] | Tensor | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A batch for the model; `lengths` and `tokens` are None where inputs are pixels or sound."""

    inputs: dict[str, Tensor]
    lengths: list[Lengths] | None
    source: list[Tokens] | None  # tokens of the encoder of an encoder-decoder
    target: list[Tokens] | None
    single: bool


def encode(
    model: PreTrainedModel,
    tokenizer: Tokenizer | None,
    given: ModelInput,
    target_text: str | Sequence[str] | None = None,
) -> Encoded:
    """Check what was given and turn it into a batch; nothing of the model runs here."""
    two = bool(getattr(model.config, "is_encoder_decoder", False))
    if target_text is not None and not two:
        raise InputError("target_text is for encoder-decoder models; this model has no decoder")
    pad = pad_id(model, tokenizer)
    inputs, tokens, single = _read(tokenizer, given, pad)
    wanted = getattr(model, "main_input_name", "input_ids")
    if wanted not in inputs:
        raise InputError(f"the model reads {wanted}, but {', '.join(inputs)} was given")
    batch = len(next(iter(inputs.values())))
    sources = None
    if "input_ids" in inputs:
        inputs = _right_padded(inputs)
        real = _real_lengths(inputs, "input_ids", "attention_mask")
        ids = [row[:count].tolist() for row, count in zip(inputs["input_ids"], real, strict=True)]
        _check_ids(model, tokenizer, ids)
        sources = tokens or [_from_ids(tokenizer, row) for row in ids]
    if not two:
        lengths = [Lengths(None, len(t)) for t in sources] if sources else None
        return Encoded(_placed(model, inputs), lengths, None, sources, single)
    inputs, targets = _with_decoder(model, tokenizer, inputs, batch, target_text)
    lengths = None
    if sources:
        lengths = [Lengths(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
    return Encoded(_placed(model, inputs), lengths, sources, targets, single)


def _read(
    tokenizer: Tokenizer | None, given: ModelInput, pad: int
) -> tuple[dict[str, Tensor], list[Tokens] | None, bool]:
    """(tensors, tokens where the text is known, whether a single example was given)."""
    if isinstance(given, str) or _is_pair(given):
        tensors, tokens = _from_texts(tokenizer, [given], pad)
        return tensors, tokens, True
    if isinstance(given, Mapping):
        return _from_mapping(given)
    if isinstance(given, Tensor):
        ids = _as_ids("the tensor", given)
        return {"input_ids": ids}, None, len(ids) == 1
    if not isinstance(given, Sequence) or isinstance(given, bytes | bytearray):
        raise InputError(
            f"a {type(given).__name__} was given; expected a text, a pair of texts, a list of texts, "
            "token ids, or a tokenizer's output"
        )
    if len(given) == 0:
        raise InputError("nothing was given: the list of texts or token ids is empty")
    if all(isinstance(one, str) or _is_pair(one) for one in given):
        tensors, tokens = _from_texts(tokenizer, list(given), pad)
        return tensors, tokens, False
    rows = [_ids_of(one) for one in given]
    if all(isinstance(row, int) for row in rows):
        return {"input_ids": torch.tensor([rows])}, None, True
    if all(isinstance(row, list) and row for row in rows):
        return _stack([row for row in rows if isinstance(row, list)], pad), None, False
    kinds = " and ".join(sorted({type(one).__name__ for one in given}))
    raise InputError(
        f"a list with a mixture of {kinds}, or with an empty one, was given; expected only texts, only token ids, or "
        "only lists of token ids"
    )


def _ids_of(one: Any) -> int | list[int] | None:
    """A token id or a list of them, whatever integer type they have; None for anything else."""
    try:
        return index(one)
    except TypeError:
        pass
    try:
        return None if isinstance(one, str | bytes) else [index(i) for i in one]
    except TypeError:
        return None


def _as_ids(name: str, given: Tensor) -> Tensor:
    if given.numel() == 0:
        raise InputError(f"nothing was given: {name} is empty, its shape is {tuple(given.shape)}")
    integral = not (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool)
    if not integral or given.dim() not in (1, 2):
        raise InputError(
            f"{name} has dtype {given.dtype} and shape {tuple(given.shape)}; token ids are integers of shape [length] "
            'or [batch, length], and pixels go in as {"pixel_values": …}'
        )
    return given.reshape(-1, given.shape[-1])


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(t, str) for t in given)


def _from_texts(tokenizer: Tokenizer | None, texts: list[Any], pad: int) -> tuple[dict[str, Tensor], list[Tokens]]:
    if tokenizer is None:
        raise InputError("a text was given, but the model was loaded without a tokenizer")
    rows, tokens = [], []
    for text in texts:
        parts = (text,) if isinstance(text, str) else text
        if not all(part.strip() for part in parts):
            raise InputError(f"the text {text!r} is empty; there is nothing to explain")
        _check_text(*parts)
        encoding = tokenizer(*parts, return_offsets_mapping=tokenizer.is_fast, return_special_tokens_mask=True)
        one = _from_encoding(tokenizer, encoding, parts)
        if all(one.special):
            raise InputError(f"the text {text!r} has no tokens of its own for this tokenizer, only special ones")
        tokens.append(one)
        rows.append({k: encoding[k] for k in tokenizer.model_input_names if k in encoding})
    batch = _stack([row["input_ids"] for row in rows], pad)
    if "token_type_ids" in rows[0]:
        batch["token_type_ids"] = _stack([row["token_type_ids"] for row in rows])["input_ids"]
    return batch, tokens


def _check_text(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the text {text!r} is not valid Unicode: {error.reason}") from error


def _from_encoding(tokenizer: Tokenizer, encoding: Any, texts: tuple[str, ...]) -> Tokens:
    ids = encoding["input_ids"]
    special = tuple(bool(flag) for flag in encoding["special_tokens_mask"])
    pieces = tokenizer.convert_ids_to_tokens(ids)
    spans: list[tuple[int, int] | None] = [None] * len(ids)
    words: list[int | None] = [None] * len(ids)
    segments = [0] * len(ids)
    if tokenizer.is_fast:
        words, sequences = encoding.word_ids(), encoding.sequence_ids()
        for i, (start, end) in enumerate(encoding["offset_mapping"]):
            segments[i] = sequences[i] or 0
            if not special[i] and end > start:
                spans[i] = (start, end)
                pieces[i] = texts[segments[i]][start:end].strip() or pieces[i]
    return Tokens(tuple(pieces), tuple(ids), special, tuple(spans), tuple(words), tuple(segments), texts)


def _special_ids(tokenizer: Tokenizer | None) -> set[int]:
    """Ids that stand for no text; an unknown word is still a word."""
    return set(tokenizer.all_special_ids) - {tokenizer.unk_token_id} if tokenizer else set()


def _from_ids(tokenizer: Tokenizer | None, ids: list[int]) -> Tokens:
    special = _special_ids(tokenizer)
    pieces = [str(p) for p in tokenizer.convert_ids_to_tokens(ids)] if tokenizer else map(str, ids)
    nothing = (None,) * len(ids)
    return Tokens(
        tuple(pieces),
        tuple(ids),
        tuple(i in special for i in ids),
        nothing,
        nothing,
        (0,) * len(ids),
        (None,),
    )


def _from_mapping(given: Mapping[str, Any]) -> tuple[dict[str, Tensor], list[Tokens] | None, bool]:
    if not {"input_ids", "pixel_values", "input_features", "input_values"} & set(given):
        raise InputError(
            f"a mapping with the keys {sorted(map(str, given))} was given; expected input_ids, pixel_values, "
            "input_features or input_values among them"
        )
    inputs: dict[str, Tensor] = {}
    single = False
    for name, value in given.items():
        if name in NOT_FOR_THE_MODEL:
            continue
        try:
            tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"the input {name!r} is no rectangular array of numbers: {error}") from error
        if "mask" in name:
            tensor = tensor.long()
        if name.endswith("_ids") or "mask" in name:
            single = single or tensor.dim() == 1
            tensor = _as_ids(f"the input {name!r}", tensor)
        least = AXES.get(name, 1)
        if tensor.dim() < least or tensor.numel() == 0:
            raise InputError(
                f"the input {name!r} has shape {tuple(tensor.shape)}; expected {least} axes or more, the first for the "
                "examples, and none empty"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise InputError(f"the input {name!r} has NaN or infinite values")
        inputs[name] = tensor
    sizes = {name: len(value) for name, value in inputs.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the inputs are batches of different sizes: {sizes}")
    return inputs, None, single or set(sizes.values()) == {1}


def _stack(rows: list[list[int]], pad: int = 0) -> dict[str, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def pad_id(model: PreTrainedModel, tokenizer: Tokenizer | None) -> int:
    """What stands behind shorter examples; classifiers find their last token by it."""
    own = getattr(model.config, "pad_token_id", None)
    own = getattr(tokenizer, "pad_token_id", None) if own is None else own
    return own if isinstance(own, int) and own >= 0 else 0


def _right_padded(inputs: dict[str, Tensor], side: str = "") -> dict[str, Tensor]:
    """The same batch with each example's real tokens first; a mask with holes is refused."""
    ids, name = inputs[f"{side}input_ids"], f"{side}attention_mask"
    mask = inputs.get(name)
    if mask is None:
        return {**inputs, name: torch.ones_like(ids)}
    if mask.shape != ids.shape:
        raise InputError(f"{name} has shape {tuple(mask.shape)}, {side}input_ids {tuple(ids.shape)}")
    first, count = mask.int().argmax(1), mask.sum(1)
    places = torch.arange(mask.shape[1], device=mask.device)
    solid = (places >= first[:, None]) & (places < (first + count)[:, None])
    if (count == 0).any() or not torch.equal(solid, mask.bool()):
        raise InputError(
            f"{name} must mark one run of real tokens in every example, with padding only to its "
            "left or right; leave out tokens that the model is not to see"
        )
    order = (places + first[:, None]) % mask.shape[1]  # [batch length]
    return {
        key: value.gather(1, order.to(value.device))
        if key.startswith("decoder_") == bool(side) and value.shape == mask.shape
        else value
        for key, value in inputs.items()
    }


def _real_lengths(inputs: dict[str, Tensor], ids: str, mask: str) -> list[int]:
    if mask in inputs:
        return inputs[mask].sum(1).tolist()
    return [inputs[ids].shape[1]] * len(inputs[ids])


def _check_ids(
    model: PreTrainedModel, tokenizer: Tokenizer | None, rows: list[list[int]], decoder: bool = False
) -> None:
    vocabulary = getattr(model.get_input_embeddings(), "num_embeddings", None)
    positions = position_limit(model, decoder)
    special = _special_ids(tokenizer)
    for ids in rows:
        if positions is not None and len(ids) > positions:
            raise InputError(
                f"the input has {len(ids)} tokens, but the model has positions for {positions} only: "
                "shorten or split it"
            )
        wrong = [i for i in ids if i < 0 or (vocabulary is not None and i >= vocabulary)]
        if wrong:
            raise InputError(
                f"token id {wrong[0]} is outside the model's vocabulary of {vocabulary} ids; is the "
                "tokenizer the model's own?"
            )
        if special.issuperset(ids):
            raise InputError("the input has only special tokens; there is nothing to explain")


def position_limit(model: PreTrainedModel, decoder: bool = False) -> int | None:
    """How many tokens the model has positions for; None where positions are relative without end."""
    limit = getattr(model.config, "max_position_embeddings", None)
    if decoder:
        limit = getattr(model.config, "max_target_positions", limit)  # Whisper's name for its text
    if not isinstance(limit, int) or limit <= 0:
        return None
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return limit - module.padding_idx - 1  # RoBERTa counts from behind its padding id
    return limit


def _with_decoder(
    model: PreTrainedModel,
    tokenizer: Tokenizer | None,
    inputs: dict[str, Tensor],
    batch: int,
    target_text: str | Sequence[str] | None,
) -> tuple[dict[str, Tensor], list[Tokens]]:
    """The decoder's side: what was given, the target text behind the start token, or that token alone."""
    if "decoder_input_ids" in inputs:
        if target_text is not None:
            raise InputError("give target_text or decoder_input_ids, not both")
        inputs = _right_padded(inputs, "decoder_")
        real = _real_lengths(inputs, "decoder_input_ids", "decoder_attention_mask")
        rows = [row[:count] for row, count in zip(inputs["decoder_input_ids"].tolist(), real, strict=True)]
        _check_ids(model, None, rows, decoder=True)
        return inputs, [_from_ids(tokenizer, row) for row in rows]
    start = getattr(model.config, "decoder_start_token_id", None)
    start = model.generation_config.decoder_start_token_id if start is None else start
    if start is None:
        raise InputError("the model names no decoder_start_token_id: give decoder_input_ids")
    texts = [target_text] if isinstance(target_text, str) else target_text
    if texts is not None and not (isinstance(texts, Sequence) and all(isinstance(text, str) for text in texts)):
        kind = type(target_text).__name__
        raise InputError(f"target_text was given {target_text!r}, a {kind}; expected a text, or one for each input")
    head = _from_ids(tokenizer, [start])
    if texts is None:
        tokens = [head] * batch
    elif tokenizer is None or len(texts) != batch:
        raise InputError(f"{len(texts)} target texts were given for {batch} inputs, or no tokenizer")
    else:
        tokens = []
        for text in texts:
            _check_text(text)
            encoding = tokenizer(
                text_target=text,
                add_special_tokens=False,
                return_offsets_mapping=tokenizer.is_fast,
                return_special_tokens_mask=True,
            )
            body = _from_encoding(tokenizer, encoding, (text,))
            tokens.append(_joined(head, body, text))
    rows = [[i for i in one.ids if i is not None] for one in tokens]
    _check_ids(model, None, rows, decoder=True)
    packed = _stack(rows, pad_id(model, tokenizer))
    return {
        **inputs,
        "decoder_input_ids": packed["input_ids"],
        "decoder_attention_mask": packed["attention_mask"],
    }, tokens


def _joined(head: Tokens, body: Tokens, text: str) -> Tokens:
    both = head + body
    return Tokens(
        both.pieces,
        both.ids,
        (True, *body.special),
        both.spans,
        both.words,
        (0,) * len(both),
        (text,),
    )


def _placed(model: PreTrainedModel, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value.to(model.device, model.dtype if value.is_floating_point() else None)
        for name, value in inputs.items()
    }
