"""Identifiability against length: certificates of pieces cut from texts."""

from collections.abc import Sequence

import numpy as np

from thalweg.decompose.value_space import value_space
from thalweg.errors import InputError
from thalweg.identifiability.result import LengthCurve, LengthPoint
from thalweg.identifiability.trust import trust
from thalweg.models.encode import position_limit
from thalweg.models.load import Subject
from thalweg.progress import progress

LONGEST_PIECE = 512  # tokens, unless lengths are given


def trust_by_length(
    subject: Subject, texts: Sequence[str], lengths: Sequence[int] | None = None, pieces: int = 4
) -> LengthCurve:
    """Certificates of pieces of different lengths, cut from texts joined together (Brunner et al.'s figure).

    `lengths` are numbers of tokens, by default powers of two from 8 to what the model and the texts allow; for each,
    up to `pieces` pieces from different places are taken.
    """
    cuts = pieces_of(subject, texts, lengths, pieces)
    points, provenance = [], {}
    with progress("lengths") as report:
        for done, piece in enumerate(cuts):
            found = trust(subject, piece)
            provenance = found.provenance
            counts, total = found.counts(), len(found.heads)

            def mean(name: str, heads: Sequence[object] = found.heads) -> float:
                return float(np.nanmean([getattr(one, name) for one in heads]))

            points.append(
                LengthPoint(
                    len(found.tokens),
                    *(mean(name) for name in ("rank", "null_share", "null_share_row_sum", "pearson", "spearman")),
                    readable=counts["identifiable"] / total,
                    readable_given_keys=(counts["identifiable"] + counts["identifiable given the keys"]) / total,
                )
            )
            report(done + 1, len(cuts))
    return LengthCurve(tuple(points), provenance)


def pieces_of(
    subject: Subject, texts: Sequence[str], lengths: Sequence[int] | None = None, pieces: int = 4
) -> list[list[int]]:
    """Token ids of pieces of the given lengths, special tokens included, evenly spread over the beginning of the texts.

    As much is read as pieces of the largest length need; those of other lengths come from about the same places.
    """
    if subject.tokenizer is None:
        raise InputError("pieces of text need a tokenizer; the model was loaded without one")
    if pieces < 1:
        raise InputError(f"pieces was given {pieces}; expected at least 1")
    if lengths is not None and not lengths:
        raise InputError("lengths is empty; expected numbers of tokens, or None for powers of two")
    wanted = LONGEST_PIECE if lengths is None else max(lengths)
    limit = min(position_limit(subject.model) or wanted, wanted)
    before, content, after = _joined(subject, texts, pieces * limit)
    frame = len(before) + len(after)
    longest = min(limit, len(content) + frame)
    if lengths is None:
        lengths = [2**power for power in range(3, LONGEST_PIECE.bit_length()) if frame < 2**power <= longest]
    if not lengths or not all(frame < length <= longest for length in lengths):
        raise InputError(
            f"lengths {list(lengths)} were asked for; the texts have {len(content)} tokens, the model takes {limit} "
            f"and adds {frame} of its own: expected lengths from {frame + 1} to {longest}"
        )
    cuts = []
    for length in lengths:
        inner = length - frame
        count = min(pieces, len(content) // inner)
        for start in np.linspace(0, len(content) - inner, count).astype(int):
            cuts.append([*before, *content[start : start + inner], *after])
    return cuts


def certified_length(subject: Subject, texts: Sequence[str], pieces: int = 4) -> tuple[int, int]:
    """(the largest number of tokens at which all heads are determined, the largest that was tried).

    Pieces of that length are cut from texts joined together and each is certified, by value spaces alone; the number is
    found by halving, so that pieces of one token more were seen not to be, unless there were none. Tried is at most
    one token more than values and row sums can tell apart.
    """
    before, content, after = _joined(subject, texts, LONGEST_PIECE)
    frame = len(before) + len(after)
    shortest = [*before, *content[:1], *after]
    widest = max(block.attention.value.shape[-1] for block in subject.capture_one(shortest).blocks)
    tried = min(widest + 2, frame + len(content), position_limit(subject.model) or widest + 2)

    def determined(length: int) -> bool:
        cuts = pieces_of(subject, texts, [length], pieces)
        blocks = (block for piece in cuts for block in subject.capture_one(piece).blocks)
        return all(not value_space(block).ambiguity.any() for block in blocks)

    certified, open_ = 0, tried + 1
    while open_ - certified > 1:
        middle = (certified + open_) // 2 if open_ <= tried else tried
        if middle <= frame or determined(middle):
            certified = middle
        else:
            open_ = middle
    return certified, tried


def _joined(subject: Subject, texts: Sequence[str], enough: int) -> tuple[list[int], list[int], list[int]]:
    """Token ids of texts joined together, until there are enough, and what the tokenizer puts before and after."""
    assert subject.tokenizer is not None
    content: list[int] = []
    before: list[int] = []
    after: list[int] = []
    for text in (one for one in texts if one.strip()):
        encoded = subject.tokenizer(text, return_special_tokens_mask=True, verbose=False)
        ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
        inside = [place for place, mark in enumerate(special) if not mark]
        if inside:
            before, after = ids[: inside[0]], ids[inside[-1] + 1 :]
            content += ids[inside[0] : inside[-1] + 1]
        if len(content) >= enough:
            break
    return before, content, after
