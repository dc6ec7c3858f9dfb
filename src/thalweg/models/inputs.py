"""Model input in any form, as tensors: texts, pairs, token ids, arrays, a tokenizer's output, pixels or sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import torch
from torch import Tensor

from thalweg.errors import InputError
from thalweg.models.padding import batch_of, padded
from thalweg.models.tokenize import Tokenizer, tokenize
from thalweg.tokens import Tokens

ModelInput = str | tuple[str, str] | Sequence[Any] | Tensor | Mapping[str, Any]
MIN_AXES = {"pixel_values": 4, "input_features": 3, "input_values": 2}
TOKENIZER_ONLY = {"offset_mapping", "special_tokens_mask", "overflow_to_sample_mapping", "length"}  # not for the model


@dataclass(frozen=True, eq=False)
class RawInputs:
    """Tensors by the names of the model's arguments; `tokens` is None unless the input was text.

    `cut` holds the number of tokens of a text before it was cut, and 0 for a text that was not.
    """

    tensors: dict[str, Tensor]
    tokens: list[Tokens] | None
    single: bool  # one example, not a batch
    cut: tuple[int, ...] = ()


def read_inputs(tokenizer: Tokenizer | None, inputs: ModelInput, pad: int, limit: int | None = None) -> RawInputs:
    """Check the input and convert it to tensors; padding may be on either side.

    Texts of more than `limit` tokens are cut.
    """
    if isinstance(inputs, str) or _is_pair(inputs):
        return _from_texts(tokenizer, [inputs], pad, limit, single=True)
    if isinstance(inputs, Mapping):
        return _from_mapping(inputs)
    if isinstance(inputs, Tensor):
        ids = _token_ids("the tensor", inputs)
        return RawInputs({"input_ids": ids}, None, len(ids) == 1)
    if not isinstance(inputs, Sequence) or isinstance(inputs, bytes | bytearray):
        raise InputError(
            f"expected a text, a pair of texts, a list of texts, token ids, or a tokenizer's output, got "
            f"{type(inputs).__name__}"
        )
    return _from_list(tokenizer, inputs, pad, limit)


def _from_list(tokenizer: Tokenizer | None, items: Sequence[Any], pad: int, limit: int | None) -> RawInputs:
    if len(items) == 0:
        raise InputError("the list of texts or token ids is empty")
    if all(isinstance(item, str) or _is_pair(item) for item in items):
        return _from_texts(tokenizer, items, pad, limit, single=False)
    rows = [_integers(item) for item in items]
    if all(isinstance(row, int) for row in rows):
        return RawInputs({"input_ids": torch.tensor([rows])}, None, single=True)
    if all(isinstance(row, list) and row for row in rows):
        return RawInputs(batch_of([row for row in rows if isinstance(row, list)], pad), None, single=False)
    kinds = " and ".join(sorted({type(item).__name__ for item in items}))
    raise InputError(
        f"expected only texts, only token ids, or only non-empty lists of token ids, got a list with a mixture of "
        f"{kinds}, or with an empty item"
    )


def _from_texts(
    tokenizer: Tokenizer | None, texts: Sequence[Any], pad: int, limit: int | None, single: bool
) -> RawInputs:
    if tokenizer is None:
        raise InputError("the model was loaded without a tokenizer: use token ids instead of a text")
    entries = [(text,) if isinstance(text, str) else text for text in texts]
    examples = [tokenize(tokenizer, entry) for entry in entries]
    cut = tuple(len(tokens) if limit is not None and len(tokens) > limit else 0 for tokens, _ in examples)
    examples = [
        tokenize(tokenizer, entry, limit) if before else example
        for entry, before, example in zip(entries, cut, examples, strict=True)
    ]
    batch = batch_of([row["input_ids"] for _, row in examples], pad)
    if "token_type_ids" in examples[0][1]:
        batch["token_type_ids"] = padded([row["token_type_ids"] for _, row in examples], 0)
    return RawInputs(batch, [tokens for tokens, _ in examples], single, cut)


def _from_mapping(inputs: Mapping[str, Any]) -> RawInputs:
    if not {"input_ids", *MIN_AXES} & set(inputs):
        raise InputError(
            f"expected a mapping with input_ids, {', '.join(MIN_AXES)}, got the keys {sorted(map(str, inputs))}"
        )
    tensors: dict[str, Tensor] = {}
    single = False
    for name, value in inputs.items():
        if name not in TOKENIZER_ONLY:
            tensor = _tensor(name, value)
            single = single or (tensor.dim() == 1 and _is_ids(name))
            tensors[name] = _checked(name, tensor)
    sizes = {name: len(tensor) for name, tensor in tensors.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the inputs are batches of different sizes: {sizes}")
    return RawInputs(tensors, None, single or set(sizes.values()) == {1})


def _tensor(name: str, value: Any) -> Tensor:
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"the input {name!r} is not a rectangular array of numbers: {error}") from error
    return tensor.long() if "mask" in name else tensor


def _checked(name: str, tensor: Tensor) -> Tensor:
    """The tensor with an axis for the examples; raise if the model could not read it."""
    if _is_ids(name):
        tensor = _token_ids(f"the input {name!r}", tensor)
    least = MIN_AXES.get(name, 1)
    if tensor.dim() < least or tensor.numel() == 0:
        raise InputError(
            f"the input {name!r} must have at least {least} axes, the first for the examples, and none empty, got "
            f"shape {tuple(tensor.shape)}"
        )
    if tensor.is_floating_point() and not tensor.isfinite().all():
        raise InputError(f"the input {name!r} has NaN or infinite values")
    return tensor


def _token_ids(label: str, tensor: Tensor) -> Tensor:
    """Token ids as [batch length]; `label` names the tensor in errors."""
    if tensor.numel() == 0:
        raise InputError(f"{label} is empty: its shape is {tuple(tensor.shape)}")
    integral = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    if not integral or tensor.dim() not in (1, 2):
        raise InputError(
            f"{label} has dtype {tensor.dtype} and shape {tuple(tensor.shape)}; token ids must be integers of shape "
            '[length] or [batch, length], and pixels need a key: {"pixel_values": …}'
        )
    return tensor.reshape(-1, tensor.shape[-1])


def _is_ids(name: str) -> bool:
    return name.endswith("_ids") or "mask" in name


def _integers(item: Any) -> int | list[int] | None:
    """A token id or a list of them, of any integer type; None for anything else."""
    try:
        return index(item)
    except TypeError:
        pass
    try:
        return None if isinstance(item, str | bytes) else [index(i) for i in item]
    except TypeError:
        return None


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and all(isinstance(text, str) for text in item)
