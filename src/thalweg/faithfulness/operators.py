"""What it means to take a token away: on token ids, never on text that is tokenised again.

delete  the token is gone, and those behind it move up
mask    a blank stands in its place: the mask token, or the unknown token where there is no mask
pad     the padding token stands in its place and attention does not see it; those behind it stay where they are
        (RoBERTa and its kin count positions of tokens that are no padding, so there they move up)

What is kept of an input of which nothing would be left is one blank.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedModel

from thalweg.errors import InputError
from thalweg.models.encode import Tokenizer, pad_id

Operator = Literal["delete", "mask", "pad"]
OPERATORS: tuple[Operator, ...] = ("delete", "mask", "pad")


@dataclass(frozen=True)
class Blanks:
    """The tokens that stand for nothing in a model's vocabulary; None where it has none."""

    mask: int | None
    pad: int
    named: str

    @staticmethod
    def of(model: PreTrainedModel, tokenizer: Tokenizer | None) -> "Blanks":
        for kind in ("mask", "unk"):
            found = getattr(tokenizer, f"{kind}_token_id", None)
            if isinstance(found, int):
                name = str(getattr(tokenizer, f"{kind}_token"))
                return Blanks(found, pad_id(model, tokenizer), name)
        return Blanks(None, pad_id(model, tokenizer), "none")


@dataclass(frozen=True)
class Reading:
    """One input as a model reads it, without padding; as a key it stands for the pass it leads to.

    `read` is the position whose logits are the answer, None where the model has one answer for the whole text.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...] | None = None
    hidden: tuple[bool, ...] = ()  # which positions attention does not see; empty where it sees all
    read: int | None = None

    def __len__(self) -> int:
        return len(self.ids)


def without(whole: Reading, positions: Collection[int], operator: Operator, blanks: Blanks) -> Reading:
    """The input without the tokens at these positions.

    >>> without(Reading((1, 7, 8, 3)), {1}, "delete", Blanks(2, 0, "[MASK]")).ids
    (1, 8, 3)
    >>> without(Reading((1, 7, 8, 3)), {1}, "mask", Blanks(2, 0, "[MASK]")).ids
    (1, 2, 8, 3)
    """
    gone = set(positions)
    if not gone <= set(range(len(whole))) or whole.read in gone:
        raise InputError(
            f"the positions {sorted(gone)} cannot be taken away from {len(whole)} tokens, of which {whole.read} is read"
        )
    if not gone:
        return whole
    if operator == "delete":
        return _deleted(whole, gone, blanks)
    if operator == "mask":
        return _replaced(whole, gone, _blank(blanks))
    hidden = tuple(place in gone for place in range(len(whole)))
    if all(hidden):
        return _replaced(whole, gone, _blank(blanks))
    padded = _replaced(whole, gone, blanks.pad)
    return Reading(padded.ids, padded.types, hidden, padded.read)


def _deleted(whole: Reading, gone: set[int], blanks: Blanks) -> Reading:
    kept = [place for place in range(len(whole)) if place not in gone]
    if not kept:
        return Reading((_blank(blanks),), None if whole.types is None else whole.types[:1])
    return Reading(
        tuple(whole.ids[place] for place in kept),
        None if whole.types is None else tuple(whole.types[place] for place in kept),
        read=None if whole.read is None else kept.index(whole.read),
    )


def _replaced(whole: Reading, gone: set[int], blank: int) -> Reading:
    ids = tuple(blank if place in gone else number for place, number in enumerate(whole.ids))
    return Reading(ids, whole.types, whole.hidden, whole.read)


def _blank(blanks: Blanks) -> int:
    if blanks.mask is None:
        raise InputError(
            "the tokenizer has neither a mask token nor an unknown token to put in a token's place: choose the "
            "operator delete or pad"
        )
    return blanks.mask
