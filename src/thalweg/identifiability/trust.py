"""Can this attention be trusted? From a text to certificates, intervals and alternatives, one short function each."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from thalweg.axes import ScoreArray, TokenMap
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import TargetLike, find_target
from thalweg.decompose.attention_graph import block_weights, check_head
from thalweg.decompose.value_space import value_space
from thalweg.errors import InputError
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.polytope import polytope, total_variation
from thalweg.identifiability.replacement import Proof, Replacement, control, in_polytope, prove, through_keys
from thalweg.identifiability.result import Alternative, Alternatives, Certificate, HeadReport, Intervals
from thalweg.models.encode import ModelInput
from thalweg.models.load import Subject
from thalweg.numerics import double
from thalweg.progress import progress
from thalweg.receipt import Check, Receipt


def trust(subject: Subject, text: ModelInput | Capture) -> Certificate:
    """Say for every head whether its attention weights are determined by what it does, for this input.

    >>> import thalweg as tw
    >>> tw.trust(tw.load(), "a witty movie.").counts()["identifiable"]
    40
    """
    return certify(subject.capture_one(text))


def intervals(
    subject: Subject,
    text: ModelInput | Capture,
    layer: int,
    head: int,
    target: TargetLike = None,
    top: int | None = None,
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
    capture = subject.capture_one(text)
    number, block, queries = _rows(capture, layer, head, find_target(capture, target).positions)
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


def alternatives(
    subject: Subject, text: ModelInput | Capture, layer: int, head: int, target: TargetLike = "all"
) -> Alternatives:
    """What a head could have attended to instead, with the same output, and the proof on the model itself.

    `target` chooses the rows that are replaced, as in `explain`. The model runs with the head's attention replaced;
    the result says how far attention and logits moved, and how far as large a change at random moves them.

    >>> import thalweg as tw
    >>> found = tw.alternatives(tw.load(), "a witty movie.", layer=0, head=0)
    >>> found.missing["polytope"]
    'no row of this head can change while its output stays: its attention is determined'
    """
    capture = subject.capture_one(text)
    number, block, queries = _rows(capture, layer, head, find_target(capture, target).positions)
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
    subject: Subject, text: ModelInput | Capture, layer: int, head: int, target: TargetLike = None, top: int = 8
) -> HeadReport:
    """All about one head: its figures, intervals of the largest weights of the target's rows, and alternatives."""
    capture = subject.capture_one(text)
    found = intervals(subject, capture, layer, head, target, top)  # refuses a head that is not there
    others = alternatives(subject, capture, layer, head)
    return HeadReport(certify(capture, [found.layer]).head(layer, head), found, others)


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
