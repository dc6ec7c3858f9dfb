"""Can this attention be believed? From a text to certificates, intervals and alternatives, one short function each."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from thalweg.axes import ScoreArray, TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.decompose.attention_graph import block_weights, check_head
from thalweg.errors import InputError
from thalweg.explaining import Asked, one_capture, resolve
from thalweg.identifiability.alternatives import Proof, Replacement, control, in_polytope, prove, through_keys
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.polytope import polytope, total_variation
from thalweg.identifiability.value_space import value_space
from thalweg.models.encode import Given, position_limit
from thalweg.models.load import Subject
from thalweg.numerics import double
from thalweg.progress import progress
from thalweg.results.receipt import Check, Receipt, block_checks
from thalweg.results.trust import (
    Alternative,
    Alternatives,
    Certificate,
    HeadReport,
    Intervals,
    LengthCurve,
    LengthPoint,
)

LONGEST = 512  # tokens of the longest piece that is looked at unless lengths are given


def trust(subject: Subject, text: Given | Capture) -> Certificate:
    """Say for every head whether its attention weights are determined by what it does, for this input.

    >>> import thalweg as tw
    >>> tw.trust(tw.load(), "a witty movie.").counts()["identifiable"]
    40
    """
    return certify(one_capture(subject, text))


def intervals(
    subject: Subject, text: Given | Capture, layer: int, head: int, target: Asked = None, top: int | None = None
) -> Intervals:
    """The smallest and largest value that attention weights could have with the same head output.

    `target` chooses rows as in `explain`; `top` the largest weights of each row, all if left out. Two linear
    programs per weight.

    >>> import thalweg as tw
    >>> float(tw.intervals(tw.load(), "a witty movie.", layer=0, head=0, top=1).widths.max())
    0.0
    """
    if top is not None and (not isinstance(top, int) or top < 1):
        raise InputError(f"top was given {top!r}; expected a number of weights from 1, or None for all")
    capture = one_capture(subject, text)
    number, block, queries = _rows(capture, layer, head, resolve(capture, target)[0].positions)
    space = value_space(block)
    weights, parity = block_weights(block, head)
    entries, gaps, statuses = [], [0.0], Counter()
    with progress("intervals") as report:
        for done, query in enumerate(queries):
            row = polytope(space, head, query, weights[query])
            order = np.argsort(-row.weights[: len(row.keys)], kind="stable")[:top]
            for key in order:
                least, most = row.interval(int(key))
                gaps += [least.gap, most.gap]
                statuses.update([least.status, most.status])
                place = (query + block.queries.start, int(row.keys[key]) + block.keys.start)
                weight = float(row.weights[key])  # which is itself in the polytope
                entries.append((*place, weight, min(max(least.value, 0.0), weight), max(most.value, weight)))
            report(done + 1, len(queries))
    columns = np.array(entries, dtype=np.float64).reshape(-1, 5)
    checks = {**block_checks([block], (parity,)), "duality_gap": Check((max(gaps),), 1e-6)}
    figures = {f"programs {status}": float(count) for status, count in statuses.items()}
    return Intervals(
        number,
        head,
        capture.tokens,
        columns[:, 0].astype(np.int64),
        columns[:, 1].astype(np.int64),
        *columns[:, 2:].T,
        statuses=dict(statuses),
        receipt=Receipt(checks, figures, ("rows stay distributions over the keys that they see",)),
        provenance=dict(capture.provenance),
    )


def alternatives(subject: Subject, text: Given | Capture, layer: int, head: int, target: Asked = "all") -> Alternatives:
    """What a head could have attended to instead, with the same output, and the proof on the model itself.

    `target` chooses the rows that are replaced, as in `explain`. The model runs with the head's attention replaced;
    the result says how far attention and logits moved, and how far as large a change at random moves them.

    >>> import thalweg as tw
    >>> found = tw.alternatives(tw.load(), "a witty movie.", layer=0, head=0)
    >>> found.missing["polytope"]
    'no row of this head can change while its output stays: its attention is determined'
    """
    capture = one_capture(subject, text)
    number, block, queries = _rows(capture, layer, head, resolve(capture, target)[0].positions)
    space = value_space(block)
    weights, parity = block_weights(block, head)
    answers = {
        "polytope": in_polytope(space, head, weights, queries),
        "keys": through_keys(block, space, head, weights, queries),
    }
    others = {name: one for name, one in answers.items() if isinstance(one, Replacement)}
    found = {}
    if others:
        maps = {"original": weights, **{name: one.map for name, one in others.items()}}
        maps |= {f"{name} control": control(weights, one) for name, one in others.items()}
        proof = prove(capture, number, head, maps)
        found = {name: _alternative(name, capture, block, head, weights, one, proof) for name, one in others.items()}
    return Alternatives(
        layer=number,
        head=head,
        tokens=capture.tokens,
        targets=tuple(query + block.queries.start for query in queries),
        weights=_over_tokens(capture, block, weights, queries),
        polytope=found.get("polytope"),
        keys=found.get("keys"),
        missing={name: one for name, one in answers.items() if isinstance(one, str)},
        receipt=Receipt(block_checks([block], (parity,)), {}, ("all other heads and layers are the model's own",)),
        provenance=dict(capture.provenance),
    )


def trust_head(
    subject: Subject, text: Given | Capture, layer: int, head: int, target: Asked = None, top: int = 8
) -> HeadReport:
    """All about one head: its figures, intervals of the largest weights of the target's rows, and alternatives."""
    capture = one_capture(subject, text)
    found = intervals(subject, capture, layer, head, target, top)  # refuses a head that is not there
    others = alternatives(subject, capture, layer, head)
    return HeadReport(certify(capture, [found.layer]).head(layer, head), found, others)


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
    wanted = LONGEST if lengths is None else max(lengths)
    limit = min(position_limit(subject.model) or wanted, wanted)
    before, content, after = _joined(subject, texts, pieces * limit)
    frame = len(before) + len(after)
    longest = min(limit, len(content) + frame)
    if lengths is None:
        lengths = [2**power for power in range(3, LONGEST.bit_length()) if frame < 2**power <= longest]
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
    before, content, after = _joined(subject, texts, LONGEST)
    frame = len(before) + len(after)
    shortest = [*before, *content[:1], *after]
    widest = max(block.attention.value.shape[-1] for block in one_capture(subject, shortest).blocks)
    tried = min(widest + 2, frame + len(content), position_limit(subject.model) or widest + 2)

    def determined(length: int) -> bool:
        cuts = pieces_of(subject, texts, [length], pieces)
        blocks = (block for piece in cuts for block in one_capture(subject, piece).blocks)
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


def _rows(capture: Capture, layer: int, head: int, positions: Sequence[int]) -> tuple[int, Block, list[int]]:
    """The block, its number, and the rows of it that stand at these positions."""
    block = capture.block(layer)
    check_head(block, head)
    own = range(block.queries.start, block.queries.stop)
    queries = [position - own.start for position in positions if position in own]
    if not queries:
        raise InputError(
            f"none of the positions {list(positions)} is a query of {block.name!r}, whose queries are the positions "
            f"{own.start} to {own.stop - 1}; choose another target or layer"
        )
    return capture.blocks.index(block), block, queries


def _alternative(
    name: str, capture: Capture, block: Block, head: int, weights: TokenMap, other: Replacement, proof: Proof
) -> Alternative:
    """What was found for some rows of a head, with what the model said to it."""
    weights, values = double(weights), double(block.attention.values()[head])
    away = ((other.map - weights) @ values).norm(dim=-1)
    size = weights @ values.norm(dim=-1)
    return Alternative(
        targets=tuple(query + block.queries.start for query in other.queries),
        weights=_over_tokens(capture, block, other.map, other.queries),
        total_variation=np.array([total_variation(weights[q].numpy(), other.map[q].numpy()) for q in other.queries]),
        at_most=np.array(other.at_most),
        head_error=float((away / size.clamp_min(torch.finfo(size.dtype).tiny)).max()),
        compared=proof.compared,
        moved=proof.moved[name],
        allowed=proof.allowed,
        control=proof.moved[f"{name} control"],
    )


def _over_tokens(capture: Capture, block: Block, weights: TokenMap, queries: list[int]) -> ScoreArray:
    """Rows of a block over all tokens of the capture."""
    full = np.zeros((len(queries), len(capture.tokens)))
    full[:, block.keys] = double(weights[queries]).numpy()
    return full
