"""From a capture to a certificate for every head: what its attention is determined by, and how much has no effect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Block, Capture
from thalweg.decompose.value_space import ValueSpace, value_space
from thalweg.identifiability.keys import free_ambiguity, query_ambiguity
from thalweg.identifiability.layer import certify_layer
from thalweg.identifiability.result import Certificate, Head, Layer, Received, Verdict
from thalweg.identifiability.sums import Sums
from thalweg.progress import progress
from thalweg.receipt import Check, Receipt

ASSUMED = (
    "a head's own output is known, and its values are those of this pass, their bias included",
    "'given the keys' is a statement about small changes of the query, the keys being as they are",
)

Watch = Callable[[int, HeadMaps, HeadMaps], None]


def certify(capture: Capture, layers: Sequence[int] | None = None, watch: Watch | None = None) -> Certificate:
    """A certificate for every head of a capture, or of some of its layers.

    `watch` is shown, for each layer and block of rows in turn, attention and what is left of it without the part that
    has no effect, rows summing to one: they are not kept.
    """
    heads: list[Head] = []
    whole: list[Layer] = []
    parity, errors, allowed = [], [], []
    with progress("certificate") as report:
        chosen = range(len(capture.blocks)) if layers is None else layers
        for done, number in enumerate(chosen):
            block = capture.blocks[number]
            space = value_space(block)
            show = None if watch is None else partial(watch, number)
            sums = _measure(block, space, _classes(capture, block), show)
            heads += [_head(number, head, block, space, sums) for head in range(block.attention.heads)]
            whole.append(certify_layer(number, block, space))
            parity.append(sums.rows.parity)
            errors.append(sums.rows.error)
            allowed.append(2 * space.cut)
            report(done + 1, len(chosen))
    checks = {
        **block_checks([capture.blocks[number] for number in chosen], tuple(parity)),
        "effective_output": Check(tuple(errors), max(allowed)),  # of attention without its null component
    }
    names = tuple(block.name for block in capture.blocks)
    kept = any(block.attention.kept is not None for block in capture.blocks)
    said = ASSUMED + (("a key to which no head gives any weight counts as hidden",) if kept else ())
    receipt = Receipt(checks, {}, said)
    return Certificate(tuple(heads), tuple(whole), names, capture.tokens, receipt, dict(capture.provenance))


@dataclass(eq=False)
class _Sums:
    """What is added up over blocks of rows, for each head."""

    rows: Sums
    ranks: Float[Tensor, "2 head"]  # sum of rank correlations, and of how many rows
    received: Float[Tensor, "3 class head"]
    classes: tuple[str, ...]
    given_keys: list[Int[Tensor, "head row"]] = field(default_factory=list)
    row_sums: list[Float[Tensor, "2 head"]] = field(default_factory=list)


def _measure(
    block: Block,
    space: ValueSpace,
    classes: Mapping[str, Bool[Tensor, " key"]],
    show: Callable[[HeadMaps, HeadMaps], None] | None = None,
) -> _Sums:
    heads = block.attention.heads
    ranks = torch.zeros(2, heads, dtype=torch.float64)
    sums = _Sums(Sums(heads), ranks, torch.zeros(3, len(classes), heads), tuple(classes))
    members = torch.stack(list(classes.values()))  # [class key]
    for rows, weights, parity in block.rows():
        effective, with_sum = sums.rows.add_rows(space, rows, weights, parity)
        if show is not None:
            show(weights, with_sum)
        seen = space.supports[rows].to(weights.device)
        if effective is not weights:
            sums.ranks += _rank_correlations(weights, effective, seen)
        totals = effective.sum(-1)  # [head row]
        sums.row_sums.append(torch.stack([totals.amin(1), totals.amax(1)]).cpu().double())
        chosen = members.to(weights)
        for number, one in enumerate((weights, effective, with_sum)):
            sums.received[number] += (chosen @ one.sum(1).mT).cpu()  # [class head]
        given = query_ambiguity(block.attention, space, rows, weights)
        if given is not None:
            sums.given_keys.append(given)
    return sums


def _rank_correlations(
    weights: HeadMaps, effective: HeadMaps, seen: Bool[Tensor, "row key"]
) -> Float[Tensor, "2 head"]:
    """Spearman's correlation over the visible keys of each row: its sum over rows, and how many rows have one."""
    first, second = (_ranks(one, seen) for one in (weights, effective))
    product = (first * second).sum(-1)  # [head row]
    size = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    known = size > 0  # a row of equal weights has no order
    found = np.divide(product, size, out=np.zeros_like(size), where=known)
    return torch.from_numpy(np.stack([found.sum(1), known.sum(1)]))


def _ranks(maps: HeadMaps, seen: Bool[Tensor, "row key"]) -> Float[np.ndarray, "head row key"]:
    """Ranks of the visible weights of each row, ties shared, their mean subtracted; zero where hidden."""
    visible = seen.cpu().numpy()
    ranks = rankdata(np.where(visible, maps.cpu().numpy(), np.inf), axis=-1)
    mean = (ranks * visible).sum(-1, keepdims=True) / visible.sum(-1, keepdims=True)
    return (ranks - mean) * visible


def _head(layer: int, head: int, block: Block, space: ValueSpace, sums: _Sums) -> Head:
    attention = block.attention
    queries, keys = space.supports.shape
    ambiguity = space.ambiguity[head]
    determined = int((ambiguity == 0).sum())
    given = torch.cat(sums.given_keys, 1)[head] if sums.given_keys else None
    null_share, null_share_row_sum = sums.rows.null_shares()[:, head].tolist()
    correlated, rows = sums.ranks[:, head].tolist()
    widest = int(space.supports.sum(-1).argmax())
    rank, rank_with_ones = int(space.rank[head, widest]), int(space.rank_with_ones[head, widest])
    capacity = int(space.capacity[head]) + (not space.sinks)  # rows that sum to one show one dimension more
    saturated = int(space.supports[widest].sum()) > capacity
    key_size = None if attention.key is None else attention.key.shape[-1]
    value_size = attention.value.shape[-1]
    received = (sums.received[:, :, head] / queries).tolist()
    row_sums = torch.stack(sums.row_sums)[:, :, head]
    return Head(
        layer=layer,
        head=head,
        verdict=_verdict(queries, determined, given),
        queries=queries,
        keys=keys,
        key_size=key_size,
        value_size=value_size,
        rank=rank,
        rank_with_ones=rank_with_ones,
        singular_values=tuple(space.singular_values[head].tolist()),
        cut=space.cut,
        gap=float(space.gap()[head]),
        null_dimension=int(space.free[head].max()),
        ambiguity=int(ambiguity.max()),
        row_ambiguity=tuple(ambiguity.tolist()),
        rows_determined=determined,
        ambiguity_given_keys=None if given is None else int(given.max()),
        rows_determined_given_keys=None if given is None else int((given == 0).sum()),
        ambiguity_keys_free=(
            free_ambiguity(keys, key_size, value_size)
            if key_size is not None and queries == keys and space.everything
            else None
        ),
        null_share=null_share,
        null_share_row_sum=null_share_row_sum,
        pearson=sums.rows.pearson()[head],
        spearman=1.0 if not null_share else correlated / rows if rows else float("nan"),
        effective_row_sums=(float(row_sums[:, 0].min()), float(row_sums[:, 1].max())),
        longest=(rank if space.sinks else rank_with_ones) if saturated else capacity,
        received={
            name: Received(*(received[kind][number] for kind in range(3))) for number, name in enumerate(sums.classes)
        },
    )


def _verdict(queries: int, determined: int, given: Int[Tensor, " query"] | None) -> Verdict:
    if determined == queries:
        return "identifiable"
    return "identifiable given the keys" if given is not None and not given.any() else "not identifiable"


def _classes(capture: Capture, block: Block) -> dict[str, Bool[Tensor, " key"]]:
    """The block's keys by the kind of token."""
    kinds = capture.tokens.kinds()[block.keys]
    return {name: torch.tensor([kind == name for kind in kinds]) for name in dict.fromkeys(kinds)}
