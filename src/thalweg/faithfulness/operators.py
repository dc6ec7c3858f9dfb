"""Operators that remove tokens from an input. They edit token ids; text is never tokenised again.

delete  the token is dropped and later tokens move up
mask    the token is replaced by a blank: the mask token, or the unknown token if the tokenizer has no mask token
pad     the token is replaced by the padding token and hidden from attention; later tokens keep their positions
        (except in RoBERTa and related models, which number only the tokens that are not padding)

An input that would become empty keeps one blank.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from transformers import PreTrainedModel

from thalweg.errors import InputError
from thalweg.models.encode import Tokenizer, pad_id

Operator = Literal["delete", "mask", "pad"]
OPERATORS: tuple[Operator, ...] = ("delete", "mask", "pad")


@dataclass(frozen=True)
class Blanks:
    """Token ids that replace removed tokens. `mask` is None if the tokenizer has no token for it; `label` names it."""

    mask: int | None
    pad: int
    label: str

    @staticmethod
    def of(model: PreTrainedModel, tokenizer: Tokenizer | None) -> "Blanks":
        pad = pad_id(model, tokenizer)
        for kind in ("mask", "unk"):
            token_id = getattr(tokenizer, f"{kind}_token_id", None)
            if isinstance(token_id, int):
                return Blanks(token_id, pad, str(getattr(tokenizer, f"{kind}_token")))
        return Blanks(None, pad, "none")


@dataclass(frozen=True)
class TokenSequence:
    """The token ids of one input, without padding. Equal sequences lead to the same forward pass.

    `answer_position` is the position whose logits are the answer; None if the model has one answer per text.
    """

    ids: tuple[int, ...]
    type_ids: tuple[int, ...] | None = None
    hidden: tuple[bool, ...] = ()  # positions that attention does not see; empty if it sees all of them
    answer_position: int | None = None

    def __len__(self) -> int:
        return len(self.ids)


def remove_tokens(
    sequence: TokenSequence, positions: Collection[int], operator: Operator, blanks: Blanks
) -> TokenSequence:
    """Remove the tokens at these positions.

    >>> remove_tokens(TokenSequence((1, 7, 8, 3)), {1}, "delete", Blanks(2, 0, "[MASK]")).ids
    (1, 8, 3)
    >>> remove_tokens(TokenSequence((1, 7, 8, 3)), {1}, "mask", Blanks(2, 0, "[MASK]")).ids
    (1, 2, 8, 3)
    """
    removed = set(positions)
    if not removed <= set(range(len(sequence))) or sequence.answer_position in removed:
        raise InputError(
            f"cannot remove positions {sorted(removed)} from {len(sequence)} tokens (the answer is read at position "
            f"{sequence.answer_position})"
        )
    if not removed:
        return sequence
    if operator == "delete":
        return _delete(sequence, removed, blanks)
    hidden = tuple(position in removed for position in range(len(sequence)))
    if operator == "mask" or all(hidden):
        return _overwrite(sequence, removed, _blank(blanks))
    return replace(_overwrite(sequence, removed, blanks.pad), hidden=hidden)


def _delete(sequence: TokenSequence, removed: set[int], blanks: Blanks) -> TokenSequence:
    kept = [position for position in range(len(sequence)) if position not in removed]
    types, answer = sequence.type_ids, sequence.answer_position
    if not kept:
        return TokenSequence((_blank(blanks),), None if types is None else types[:1])
    return TokenSequence(
        tuple(sequence.ids[position] for position in kept),
        None if types is None else tuple(types[position] for position in kept),
        answer_position=None if answer is None else kept.index(answer),
    )


def _overwrite(sequence: TokenSequence, removed: set[int], token_id: int) -> TokenSequence:
    ids = tuple(token_id if position in removed else own for position, own in enumerate(sequence.ids))
    return replace(sequence, ids=ids)


def _blank(blanks: Blanks) -> int:
    if blanks.mask is None:
        raise InputError("the tokenizer has neither a mask token nor an unknown token; use the operator delete or pad")
    return blanks.mask
