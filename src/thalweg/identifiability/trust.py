"""Can this attention be trusted? From a text to a certificate, to intervals and to alternatives."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int

from thalweg.axes import ScoreArray, TokenMap
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import TargetLike, find_target
from thalweg.decompose.attention_graph import block_weights
from thalweg.decompose.value_space import value_space
from thalweg.errors import InputError
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.head_result import Alternative, Alternatives, Intervals
from thalweg.identifiability.polytope import polytope, total_variation
from thalweg.identifiability.proof import Proof, prove
from thalweg.identifiability.replacement import (
    NoReplacement,
    Replacement,
    by_scaling,
    control,
    in_polytope,
    through_keys,
)
from thalweg.identifiability.result import Certificate, HeadReport
from thalweg.indices import check_index
from thalweg.models.encode import ModelInput
from thalweg.models.subject import Subject
from thalweg.numerics import double
from thalweg.progress import progress
from thalweg.receipt import Check, Receipt

ASSUMED_ROWS = "rows stay distributions over their visible keys"
ASSUMED_OTHERS = "all other heads and layers are the model's own"
SHOWN_OUTPUTS = 5  # largest logits, or numbers of a hidden state


def trust(subject: Subject, text: ModelInput | Capture) -> Certificate:
    """Certify for every head whether its output determines its attention weights for this input.

    Heads are ranked by how much of their attention can move without any effect: a lower bound on 8 rows of each head.
    The result includes different attention of the first of them, verified by running the model with it.

    >>> import thalweg as tw
    >>> tw.trust(tw.load(), "a witty movie.").counts()["identifiable"]
    40
    """
    capture = subject.capture_one(text)
    return with_example(subject, capture, certify(capture))


def with_example(subject: Subject, capture: Capture, certificate: Certificate) -> Certificate:
    """Add different attention of the most misleading head, with the same output in the model."""
    for head in certificate.most_misleading(1):
        block = capture.blocks[head.layer]
        weights, parity = block_weights(block, head.head)
        queries = range(len(weights))
        candidates = {
            "polytope": by_scaling(value_space(block), head.head, weights, queries),
            "keys": NoReplacement("not searched here; use alternatives"),
        }
        example = _verified(subject, capture, head.layer, head.head, weights, parity, queries, candidates)
        return replace(certificate, example=example if example.polytope else None)
    return certificate


def intervals(
    subject: Subject,
    text: ModelInput | Capture,
    layer: int,
    head: int,
    target: TargetLike = None,
    top: int | None = None,
) -> Intervals:
    """Compute the exact range of attention weights over all distributions with the same head output.

    `target` selects rows as in `explain`; `top` limits each row to its largest weights (default: all). Every weight
    takes two linear programs.

    >>> import thalweg as tw
    >>> float(tw.intervals(tw.load(), "a witty movie.", layer=0, head=0, top=1).widths.max())
    0.0
    """
    if top is not None and (not isinstance(top, int) or top < 1):
        raise InputError(f"top must be at least 1, or None for all weights, got {top!r}")
    capture = subject.capture_one(text)
    number, block, queries = _rows(capture, layer, head, find_target(capture, target).positions)
    space = value_space(block)
    weights, parity = block_weights(block, head)
    entries, gaps, statuses = [], [0.0], Counter()
    with progress("intervals") as report:
        for done, query in enumerate(queries, 1):
            row = polytope(space, head, query, weights[query])
            for key in np.argsort(-row.weights[: len(row.keys)], kind="stable")[:top]:
                least, most = row.interval(int(key))
                gaps += [least.gap, most.gap]
                statuses.update([least.status, most.status])
                place = (query + block.queries.start, int(row.keys[key]) + block.keys.start)
                weight = float(row.weights[key])  # lies in the polytope, so the interval must contain it
                entries.append((*place, weight, min(max(least.value, 0.0), weight), max(most.value, weight)))
            report(done, len(queries))
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
        receipt=Receipt(checks, figures, (*capture.assumed, ASSUMED_ROWS), capture.learnt),
        provenance=dict(capture.provenance),
    )


def alternatives(
    subject: Subject, text: ModelInput | Capture, layer: int, head: int, target: TargetLike = "all"
) -> Alternatives:
    """Find different attention of one head with the same output, and verify it by running the model with it.

    `target` selects the rows to replace, as in `explain`. The result reports how far attention and the model's output
    moved, and how far the output moves for an equally large random change.

    >>> import thalweg as tw
    >>> result = tw.alternatives(tw.load(), "a witty movie.", layer=0, head=0)
    >>> result.missing["polytope"]
    "no row can change while the head's output stays the same: attention is determined"
    """
    capture = subject.capture_one(text)
    number, block, queries = _rows(capture, layer, head, find_target(capture, target).positions)
    space = value_space(block)
    weights, parity = block_weights(block, head)
    candidates = {
        "polytope": in_polytope(space, head, weights, queries),
        "keys": through_keys(block, space, head, weights, queries),
    }
    return _verified(subject, capture, number, head, weights, parity, queries, candidates)


def _verified(
    subject: Subject,
    capture: Capture,
    number: int,
    head: int,
    weights: TokenMap,
    parity: float,
    queries: Sequence[int],
    candidates: Mapping[str, Replacement | NoReplacement],
) -> Alternatives:
    """Run the model with each replacement, and put the maps beside its own."""
    block = capture.blocks[number]
    others = {name: entry for name, entry in candidates.items() if isinstance(entry, Replacement)}
    verified: dict[str, Alternative] = {}
    output, names, largest = np.zeros(0), (), np.zeros(0, dtype=np.int64)
    if others:
        maps = {"original": weights, **{name: other.map for name, other in others.items()}}
        maps |= {f"{name} control": control(weights, other) for name, other in others.items()}
        proof = prove(capture, number, head, maps)
        largest = np.argsort(-proof.output["original"], kind="stable")[:SHOWN_OUTPUTS]
        output = proof.output["original"][largest]
        names = tuple(_output_name(subject, proof.compared, entry) for entry in largest.tolist())
        verified = {
            name: _alternative(name, capture, block, head, weights, other, proof, largest)
            for name, other in others.items()
        }
    return Alternatives(
        layer=number,
        head=head,
        tokens=capture.tokens,
        targets=tuple(query + block.queries.start for query in queries),
        weights=_over_tokens(capture, block, weights, queries),
        head_output=_head_output(block, head, weights, queries),
        output_names=names,
        output=output,
        polytope=verified.get("polytope"),
        keys=verified.get("keys"),
        missing={name: entry.reason for name, entry in candidates.items() if isinstance(entry, NoReplacement)},
        receipt=Receipt(block_checks([block], (parity,)), {}, (*capture.assumed, ASSUMED_OTHERS), capture.learnt),
        provenance=dict(capture.provenance),
    )


def trust_head(
    subject: Subject, text: ModelInput | Capture, layer: int, head: int, target: TargetLike = None, top: int = 8
) -> HeadReport:
    """Report on one head: its certificate, intervals of the largest weights of the target's rows, and alternatives."""
    capture = subject.capture_one(text)
    ranges = intervals(subject, capture, layer, head, target, top)  # also checks layer and head
    others = alternatives(subject, capture, layer, head)
    return HeadReport(certify(capture, [ranges.layer]).head(layer, head), ranges, others)


def _rows(capture: Capture, layer: int, head: int, positions: Sequence[int]) -> tuple[int, Block, list[int]]:
    """The number of the block, the block, and its rows at these positions."""
    block = capture.block(layer)
    check_index("head", head, block.attention.heads)
    own = range(block.queries.start, block.queries.stop)
    queries = [position - own.start for position in positions if position in own]
    if not queries:
        raise InputError(
            f"target positions {list(positions)} are not queries of {block.name!r}, whose queries are positions "
            f"{own.start} to {own.stop - 1}; choose another target or layer"
        )
    return capture.blocks.index(block), block, queries


def _alternative(
    name: str,
    capture: Capture,
    block: Block,
    head: int,
    weights: TokenMap,
    other: Replacement,
    proof: Proof,
    largest: Int[np.ndarray, " entry"],
) -> Alternative:
    """A replacement with its distances, its proof and the `largest` entries of the model's output."""
    weights, values = double(weights), double(block.attention.values()[head])
    change = ((other.map - weights) @ values).norm(dim=-1)
    size = weights @ values.norm(dim=-1)
    return Alternative(
        targets=tuple(query + block.queries.start for query in other.queries),
        weights=_over_tokens(capture, block, other.map, other.queries),
        total_variation=np.array([total_variation(weights[q].numpy(), other.map[q].numpy()) for q in other.queries]),
        at_most=np.array(other.at_most),
        head_error=float((change / size.clamp_min(torch.finfo(size.dtype).tiny)).max()),
        compared=proof.compared,
        moved=proof.moved[name],
        allowed=proof.allowed,
        control=proof.moved[f"{name} control"],
        head_output=_head_output(block, head, other.map, other.queries),
        output=proof.output[name][largest],
    )


def _head_output(block: Block, head: int, weights: TokenMap, queries: Sequence[int]) -> Float[np.ndarray, "row size"]:
    return (double(weights)[list(queries)] @ double(block.attention.values()[head])).numpy()


def _output_name(subject: Subject, compared: str, entry: int) -> str:
    """The class or token of a logit; numbers of hidden states have no name."""
    return subject.output_name(entry) or str(entry) if compared == "logits" else f"dimension {entry}"


def _over_tokens(capture: Capture, block: Block, weights: TokenMap, queries: Sequence[int]) -> ScoreArray:
    """Rows of a block over all tokens of the capture."""
    full = np.zeros((len(queries), len(capture.tokens)))
    full[:, block.keys] = double(weights[list(queries)]).numpy()
    return full
