"""Certify a capture: for every head, what its attention is determined by and how much of it has no effect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.checks import block_checks
from thalweg.capture.record import Block, Capture
from thalweg.decompose.value_space import ValueSpace, value_space
from thalweg.identifiability.effect_sums import EffectSums
from thalweg.identifiability.keys import free_ambiguity, margins, query_ambiguity, query_moves
from thalweg.identifiability.layer import certify_layer
from thalweg.identifiability.movable import moved_mass, sampled_rows, witnesses
from thalweg.identifiability.result import Certificate, Head, Layer, Received, Verdict
from thalweg.progress import progress
from thalweg.ranks import centred_ranks, correlations
from thalweg.receipt import Check, Receipt

ASSUMED = (
    "the output of each head is known, and its values, bias included, are those of this pass",
    "'given the keys' refers to small query perturbations with the keys unchanged",
    "the mass that can move is a lower bound in each sampled row, and other rows are like the sampled ones",
)
ASSUMED_MASK = "a key that gets no weight from any head counts as masked"  # where weights replace queries and keys

Watch = Callable[[int, HeadMaps, HeadMaps], None]


def certify(capture: Capture, layers: Sequence[int] | None = None, watch: Watch | None = None) -> Certificate:
    """Certify every head of a capture, or of some of its layers.

    `watch(layer, weights, effective)` is called for each layer and chunk of rows with the attention weights and the
    effective attention whose rows sum to one; neither is kept.
    """
    chosen = range(len(capture.blocks)) if layers is None else layers
    heads: list[Head] = []
    layer_figures: list[Layer] = []
    parity, errors, allowed = [], [], []
    with progress("certificate") as report:
        for done, number in enumerate(chosen, 1):
            block = capture.blocks[number]
            space = value_space(block)
            sums = _measure(block, space, _kinds(capture, block), None if watch is None else partial(watch, number))
            heads += [_head(number, head, block, space, sums) for head in range(block.attention.heads)]
            layer_figures.append(certify_layer(number, block, space))
            parity.append(sums.effect.parity)
            errors.append(sums.effect.error)
            allowed.append(2 * space.cut)
            report(done, len(chosen))
    checks = {
        **block_checks([capture.blocks[number] for number in chosen], tuple(parity)),
        "effective_output": Check(tuple(errors), max(allowed)),  # of attention without its null-space component
    }
    kept = any(block.attention.kept is not None for block in capture.blocks)
    return Certificate(
        heads=tuple(heads),
        layers=tuple(layer_figures),
        blocks=tuple(block.name for block in capture.blocks),
        tokens=capture.tokens,
        receipt=Receipt(checks, {}, capture.assumed + ASSUMED + (ASSUMED_MASK,) * kept, capture.learnt),
        provenance=dict(capture.provenance),
    )


@dataclass(eq=False)
class _HeadSums:
    """Sums over chunks of rows, for each head of one block."""

    effect: EffectSums
    ranks: Float[Tensor, "2 head"]  # sum of the rank correlations of rows, and number of rows that have one
    received: Float[Tensor, "3 kind head"]
    kinds: tuple[str, ...]
    given_keys: list[Int[Tensor, "head row"]] = field(default_factory=list)
    movable: list[Float[Tensor, "head sample"]] = field(default_factory=list)
    margins: list[Float[Tensor, "head sample"]] = field(default_factory=list)  # NaN where values determine the row
    row_sums: list[Float[Tensor, "2 head"]] = field(default_factory=list)


def _measure(
    block: Block,
    space: ValueSpace,
    kinds: Mapping[str, Bool[Tensor, " key"]],
    watch: Callable[[HeadMaps, HeadMaps], None] | None = None,
) -> _HeadSums:
    heads = block.attention.heads
    ranks = torch.zeros(2, heads, dtype=torch.float64)
    sums = _HeadSums(EffectSums(heads), ranks, torch.zeros(3, len(kinds), heads), tuple(kinds))
    members = torch.stack(list(kinds.values()))  # [kind key]
    sampled = sampled_rows(len(space.supports))
    for rows, weights, parity in block.rows():
        effective, with_sum = sums.effect.add_rows(space, rows, weights, parity)
        if watch is not None:
            watch(weights, with_sum)
        if effective is not weights:
            sums.ranks += _rank_correlations(weights, effective, space.supports[rows])
        totals = effective.sum(-1)  # [head row]
        sums.row_sums.append(torch.stack([totals.amin(1), totals.amax(1)]).cpu().double())
        for number, maps in enumerate((weights, effective, with_sum)):
            sums.received[number] += (members.to(weights) @ maps.sum(1).mT).cpu()  # [kind head]
        ambiguity = query_ambiguity(block.attention, space, rows, weights)
        if ambiguity is not None:
            sums.given_keys.append(ambiguity)
        first, stop, _ = rows.indices(len(space.supports))
        queries = sampled[(first <= sampled) & (sampled < stop)]
        chosen = weights[:, queries - first]
        sums.movable.append(moved_mass(chosen, witnesses(space, queries, chosen)))
        sums.margins.append(_key_margins(block, space, rows, weights, queries))
    return sums


def _key_margins(
    block: Block, space: ValueSpace, rows: slice, weights: HeadMaps, queries: Int[Tensor, " sample"]
) -> Float[Tensor, "head sample"]:
    """The margins of these queries, as in `margins`; NaN where values alone determine the row, or without keys."""
    local = queries - rows.indices(len(space.supports))[0]
    chosen = torch.zeros(weights.shape[:2], dtype=torch.bool)
    chosen[:, local] = space.ambiguity[:, queries] > 0
    result = torch.full(weights.shape[:2], torch.nan, dtype=torch.float64)
    for part in query_moves(block.attention, space, rows, weights, chosen):
        result[part.head, part.rows] = margins(part.moves, part.matrix, part.cuts)
    return result[:, local]


def _rank_correlations(
    weights: HeadMaps, effective: HeadMaps, visible: Bool[Tensor, "row key"]
) -> Float[Tensor, "2 head"]:
    """Spearman's correlation over the visible keys of each row: its sum over rows, and how many rows have one."""
    pairs = np.stack([weights.cpu().numpy(), effective.cpu().numpy()], -2)  # [head row 2 key]
    rows = correlations(centred_ranks(pairs, visible.cpu().numpy()[:, None, :]))[..., 0, 1]  # [head row]
    return torch.from_numpy(np.stack([np.nansum(rows, 1), (~np.isnan(rows)).sum(1)]))


def _head(layer: int, head: int, block: Block, space: ValueSpace, sums: _HeadSums) -> Head:
    attention = block.attention
    queries, keys = space.supports.shape
    ambiguity = space.ambiguity[head]
    determined = int((ambiguity == 0).sum())
    given_keys = torch.cat(sums.given_keys, 1)[head] if sums.given_keys else None
    null_share, null_share_row_sum = sums.effect.null_shares()[:, head].tolist()
    correlated, rows = sums.ranks[:, head].tolist()
    widest = int(space.supports.sum(-1).argmax())
    rank, rank_with_ones = int(space.rank[head, widest]), int(space.rank_with_ones[head, widest])
    capacity = int(space.capacity[head]) + (not space.sinks)  # rows that sum to one show one dimension more
    saturated = int(space.supports[widest].sum()) > capacity
    key_size = None if attention.key is None else attention.key.shape[-1]
    value_size = attention.value.shape[-1]
    received = (sums.received[:, :, head] / queries).T.tolist()  # [kind 3]
    row_sums = torch.stack(sums.row_sums)[:, :, head]
    movable = torch.cat(sums.movable, 1)[head]
    margin = torch.cat(sums.margins, 1)[head].nanmedian()
    return Head(
        layer=layer,
        head=head,
        verdict=_verdict(queries, determined, given_keys),
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
        ambiguity_given_keys=None if given_keys is None else int(given_keys.max()),
        rows_determined_given_keys=None if given_keys is None else int((given_keys == 0).sum()),
        ambiguity_keys_free=(
            free_ambiguity(keys, key_size, value_size)
            if key_size is not None and queries == keys and space.everything
            else None
        ),
        margin_given_keys=None if margin.isnan() else float(margin),
        movable=float(movable.mean()),
        movable_most=float(movable.max()),
        rows_sampled=len(movable),
        null_share=null_share,
        null_share_row_sum=null_share_row_sum,
        pearson=sums.effect.pearson()[head],
        spearman=1.0 if not null_share else correlated / rows if rows else float("nan"),
        effective_row_sums=(float(row_sums[:, 0].min()), float(row_sums[:, 1].max())),
        longest=(rank if space.sinks else rank_with_ones) if saturated else capacity,
        received={kind: Received(*shares) for kind, shares in zip(sums.kinds, received, strict=True)},
    )


def _verdict(queries: int, determined: int, given_keys: Int[Tensor, " query"] | None) -> Verdict:
    if determined == queries:
        return "identifiable"
    return "locally unique given the keys" if given_keys is not None and not given_keys.any() else "not identifiable"


def _kinds(capture: Capture, block: Block) -> dict[str, Bool[Tensor, " key"]]:
    """The block's keys by kind of token."""
    kinds = capture.tokens.kinds()[block.keys]
    return {name: torch.tensor([kind == name for kind in kinds]) for name in dict.fromkeys(kinds)}
