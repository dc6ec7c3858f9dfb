"""Rows of token ids as one right-padded batch, and the ids that stand for nothing.

Padding goes to the right wherever it was: with absolute positions, a left-padded example would otherwise get other
numbers than when it is run alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from thalweg.capture.record import Blanks
from thalweg.errors import InputError


def pad_id(model: PreTrainedModel, tokenizer: Any) -> int:
    """The id that fills up shorter examples; some classifiers find the last token by it."""
    own = getattr(model.config, "pad_token_id", None)
    own = getattr(tokenizer, "pad_token_id", None) if own is None else own
    return own if isinstance(own, int) and own >= 0 else 0


def blanks_of(model: PreTrainedModel, tokenizer: Any) -> Blanks:
    """The ids that replace removed tokens: the mask token, or the unknown token if there is no mask token."""
    for kind in ("mask", "unk"):
        token_id = getattr(tokenizer, f"{kind}_token_id", None)
        if isinstance(token_id, int):
            return Blanks(token_id, pad_id(model, tokenizer), str(getattr(tokenizer, f"{kind}_token")))
    return Blanks(None, pad_id(model, tokenizer), "none")


def padded(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Rows filled up to the longest.

    >>> padded([[5, 6], [7]], pad=0).tolist()
    [[5, 6], [7, 0]]
    """
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def batch_of(rows: Sequence[Sequence[int]], pad: int) -> dict[str, Tensor]:
    """Token ids and their attention mask."""
    return {"input_ids": padded(rows, pad), "attention_mask": padded([[1] * len(row) for row in rows], 0)}


def right_padded(inputs: dict[str, Tensor], side: str = "") -> dict[str, Tensor]:
    """Move each example's real tokens to the front; raise for a mask with holes."""
    ids, name = inputs[f"{side}input_ids"], f"{side}attention_mask"
    mask = inputs.get(name)
    if mask is None:
        return {**inputs, name: torch.ones_like(ids)}
    if mask.shape != ids.shape:
        raise InputError(
            f"{name} has shape {tuple(mask.shape)}, but {side}input_ids has {tuple(ids.shape)}: they must be equal"
        )
    first, count = mask.int().argmax(1), mask.sum(1)
    places = torch.arange(mask.shape[1], device=mask.device)
    solid = (places >= first[:, None]) & (places < (first + count)[:, None])
    if (count == 0).any() or not torch.equal(solid, mask.bool()):
        raise InputError(
            f"{name} must mark one run of real tokens in every example, with padding only to its left or right; "
            "remove tokens that the model should not see"
        )
    order = (places + first[:, None]) % mask.shape[1]  # [batch length]
    return {
        key: value.gather(1, order.to(value.device))
        if key.startswith("decoder_") == bool(side) and value.shape == mask.shape
        else value
        for key, value in inputs.items()
    }


def real_rows(inputs: dict[str, Tensor], side: str = "") -> list[list[int]]:
    """The token ids of each example of a right-padded batch, without padding."""
    counts = inputs[f"{side}attention_mask"].sum(1).tolist()
    return [row[:count] for row, count in zip(inputs[f"{side}input_ids"].tolist(), counts, strict=True)]
