"""Edited inputs: operators that remove tokens, and batches of what is left.

Operators edit token ids; text is never tokenised again.

delete  the token is dropped and later tokens move up
mask    the token is replaced by a blank: the mask token, or the unknown token if the tokenizer has no mask token
pad     the token is replaced by the padding token and hidden from attention; later tokens keep their positions
        (except in RoBERTa and related models, which number only the tokens that are not padding)

An input that would become empty keeps one blank.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from thalweg.capture.record import Blanks, Capture
from thalweg.errors import InputError

Operator = Literal["delete", "mask", "pad"]
OPERATORS: tuple[Operator, ...] = ("delete", "mask", "pad")
BATCH_TOKENS = 4096  # padded tokens per batch
BATCH_LOGITS = 2**26  # logits per batch of a language model: 256 MB in float32


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


def original_sequence(capture: Capture) -> TokenSequence:
    """The input of a capture, without padding."""
    ids = capture.tokens.ids
    if capture.rerun is None or None in ids:
        raise InputError("tokens cannot be removed: the input has no token ids, so use occlusion, which covers states")
    types = capture.rerun.inputs.get("token_type_ids")
    return TokenSequence(
        tuple(token_id for token_id in ids if token_id is not None),
        None if types is None else tuple(types[0, : len(ids)].tolist()),
    )


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


def token_batches(by_length: Sequence[TokenSequence], outputs: int = 1) -> Iterator[list[TokenSequence]]:
    """Batches that fit in memory; `outputs` is the number of logits at each position, if every position has some."""
    most, batch = min(BATCH_TOKENS, BATCH_LOGITS // outputs), []
    for sequence in by_length:
        if batch and (len(batch) + 1) * len(sequence) > most:
            yield batch
            batch = []
        batch.append(sequence)
    if batch:
        yield batch


def batch_tensors(inputs: Sequence[TokenSequence], pad_id: int, device: torch.device) -> dict[str, Tensor]:
    """A right-padded batch as the model's keyword arguments."""
    longest = max(map(len, inputs))

    def padded(rows: list[list[int]], fill: int) -> Tensor:
        return torch.tensor([row + [fill] * (longest - len(row)) for row in rows], device=device)

    visible = [[int(not hidden) for hidden in sequence.hidden] or [1] * len(sequence) for sequence in inputs]
    tensors = {
        "input_ids": padded([list(sequence.ids) for sequence in inputs], pad_id),
        "attention_mask": padded(visible, 0),
    }
    if inputs[0].type_ids is not None:
        tensors["token_type_ids"] = padded([list(sequence.type_ids or ()) for sequence in inputs], 0)
    return tensors
