"""Identifiability against length: certificates of pieces cut from texts."""

from collections.abc import Sequence

import numpy as np

from thalweg.decompose.value_space import value_space
from thalweg.errors import InputError
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.length_result import LengthCurve, LengthPoint
from thalweg.identifiability.result import Certificate
from thalweg.models.encode import position_limit
from thalweg.models.subject import Subject
from thalweg.progress import progress

MAX_PIECE_TOKENS = 512  # of the default lengths
MEANS = ("rank", "null_share", "null_share_row_sum", "pearson", "spearman", "movable")


def trust_by_length(
    subject: Subject, texts: Sequence[str], lengths: Sequence[int] | None = None, pieces: int = 4
) -> LengthCurve:
    """Certify pieces of different lengths, cut from the concatenated texts (Brunner et al.'s figure).

    `lengths` are numbers of tokens (default: powers of two from 8 up to the limits of the model and the texts). Each
    length uses up to `pieces` pieces from different places.
    """
    cuts = pieces_of(subject, texts, lengths, pieces)
    points, provenance = [], {}
    with progress("lengths") as report:
        for done, piece in enumerate(cuts, 1):
            certificate = certify(subject.capture_one(piece))
            provenance = certificate.provenance
            points.append(_point(certificate))
            report(done, len(cuts))
    return LengthCurve(tuple(points), provenance)


def _point(certificate: Certificate) -> LengthPoint:
    counts, heads, rows = certificate.counts(), certificate.heads, certificate.row_counts()
    unique, local, _ = rows.values()
    means = {name: float(np.nanmean([getattr(head, name) for head in heads])) for name in MEANS}
    return LengthPoint(
        tokens=len(certificate.tokens),
        **means,
        identifiable=counts["identifiable"] / len(heads),
        locally_unique=(counts["identifiable"] + counts["locally unique given the keys"]) / len(heads),
        rows_identifiable=unique / sum(rows.values()),
        rows_locally_unique=(unique + local) / sum(rows.values()),
    )


def pieces_of(
    subject: Subject, texts: Sequence[str], lengths: Sequence[int] | None = None, pieces: int = 4
) -> list[list[int]]:
    """Cut pieces of these lengths from the texts, as token ids with special tokens included.

    The pieces are evenly spread over the beginning of the texts, as far as pieces of the largest length reach, so that
    pieces of different lengths come from similar places.
    """
    if subject.tokenizer is None:
        raise InputError("cutting texts into pieces needs a tokenizer; load the model with one")
    if pieces < 1:
        raise InputError(f"pieces must be at least 1, got {pieces}")
    if lengths is not None and not lengths:
        raise InputError("lengths is empty; expected numbers of tokens, or None for powers of two")
    wanted = MAX_PIECE_TOKENS if lengths is None else max(lengths)
    limit = min(position_limit(subject.model) or wanted, wanted)
    before, content, after = _joined(subject, texts, pieces * limit)
    frame = len(before) + len(after)
    longest = min(limit, len(content) + frame)
    if lengths is None:
        lengths = [2**power for power in range(3, MAX_PIECE_TOKENS.bit_length()) if frame < 2**power <= longest]
    if not lengths or not all(frame < length <= longest for length in lengths):
        raise InputError(
            f"lengths must be from {frame + 1} to {longest} tokens, got {list(lengths)}: the texts have {len(content)} "
            f"tokens, the model takes {limit} and adds {frame} special ones"
        )
    cuts = []
    for length in lengths:
        inner = length - frame
        count = min(pieces, len(content) // inner)
        for start in np.linspace(0, len(content) - inner, count).astype(int):
            cuts.append([*before, *content[start : start + inner], *after])
    return cuts


def certified_length(subject: Subject, texts: Sequence[str], pieces: int = 4) -> tuple[int, int]:
    """Find the largest number of tokens at which all heads are identifiable: (that length, the largest one tried).

    Pieces of each length are cut from the concatenated texts and certified by their value spaces alone. The length is
    found by bisection, so some piece with one more token has a head that is not identifiable, unless none was tried.
    The largest length tried is at most one token more than values and row sums can determine.
    """
    before, content, after = _joined(subject, texts, MAX_PIECE_TOKENS)
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
    """Concatenate the token ids of texts until there are enough: (special prefix, content, special suffix)."""
    assert subject.tokenizer is not None
    content: list[int] = []
    before: list[int] = []
    after: list[int] = []
    for text in filter(str.strip, texts):
        encoded = subject.tokenizer(text, return_special_tokens_mask=True, verbose=False)
        ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
        inside = [place for place, mark in enumerate(special) if not mark]
        if inside:
            before, after = ids[: inside[0]], ids[inside[-1] + 1 :]
            content += ids[inside[0] : inside[-1] + 1]
        if len(content) >= enough:
            break
    return before, content, after
