"""From a capture to a certificate for every head: what its attention is determined by, and how much has no effect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from thalweg.axes import HeadMaps
from thalweg.capture.record import Block, Capture
from thalweg.identifiability.keys import free_ambiguity, query_ambiguity
from thalweg.identifiability.layer import certify_layer
from thalweg.identifiability.value_space import ValueSpace, value_space
from thalweg.numerics import worst
from thalweg.progress import progress
from thalweg.results.receipt import Check, Receipt, block_checks
from thalweg.results.trust import Certificate, Head, Layer, Received, Verdict

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
            parity.append(worst(sums.parity))
            errors.append(worst(sums.effective_error))
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

    moments: Float[Tensor, "6 head"]  # count, Σa, Σe, Σa², Σe², Σae over visible weights
    null: Float[Tensor, "2 head"]  # Σ(a − e)², without and with the row-sum constraint
    ranks: Float[Tensor, "2 head"]  # sum of rank correlations, and of how many rows
    received: Float[Tensor, "3 class head"]
    classes: tuple[str, ...]
    given_keys: list[Int[Tensor, "head row"]] = field(default_factory=list)
    row_sums: list[Float[Tensor, "2 head"]] = field(default_factory=list)
    parity: list[float] = field(default_factory=list)
    effective_error: list[float] = field(default_factory=list)


def _measure(
    block: Block,
    space: ValueSpace,
    classes: Mapping[str, Bool[Tensor, " key"]],
    show: Callable[[HeadMaps, HeadMaps], None] | None = None,
) -> _Sums:
    heads = block.attention.heads
    zeros = torch.zeros(6, heads, dtype=torch.float64)
    sums = _Sums(zeros, zeros[:2].clone(), zeros[:2].clone(), torch.zeros(3, len(classes), heads), tuple(classes))
    members = torch.stack(list(classes.values()))  # [class key]
    for rows, weights, parity in block.rows():
        sums.parity.append(parity)
        effective, with_sum = (space.effective(rows, weights, row_sum) for row_sum in (False, True))
        if show is not None:
            show(weights, with_sum)
        seen = space.supports[rows].to(weights.device)
        sums.moments += _moments(weights, effective, seen)
        away = torch.stack([(weights - one).square().sum((1, 2)) for one in (effective, with_sum)])
        sums.null += away.cpu().double()
        sums.effective_error.append(_error(space, weights, effective))
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


def _moments(weights: HeadMaps, effective: HeadMaps, seen: Bool[Tensor, "row key"]) -> Float[Tensor, "6 head"]:
    """Raw moments of the visible pairs; what is hidden is zero in both."""
    count = torch.full((len(weights),), float(seen.sum()), dtype=torch.float64)
    pairs = (weights.sum((1, 2)), effective.sum((1, 2)))
    squares = (weights.square(), effective.square(), weights * effective)
    found = [*pairs, *(one.sum((1, 2)) for one in squares)]
    return torch.stack([count, *(one.cpu().double() for one in found)])


def _error(space: ValueSpace, weights: HeadMaps, effective: HeadMaps) -> float:
    """How far attention without its null component misses the output: of T's largest singular value, per unit row."""
    if effective is weights:
        return 0.0
    missed = (weights - effective) @ space.matrix.to(weights)  # [head row column]
    return float((missed.norm(dim=-1) / weights.norm(dim=-1).clamp_min(torch.finfo(weights.dtype).tiny)).max())


def _rank_correlations(
    weights: HeadMaps, effective: HeadMaps, seen: Bool[Tensor, "row key"]
) -> Float[Tensor, "2 head"]:
    """Spearman's correlation over the visible keys of each row: its sum over rows, and how many rows have one."""
    first, second = (_ranks(one, seen) for one in (weights, effective))
    product = (first * second).sum(-1)  # [head row]
    size = (first.square().sum(-1) * second.square().sum(-1)).sqrt()
    known = size > 0  # a row of equal weights has no order
    found = torch.where(known, product / torch.where(known, size, 1.0), 0.0)
    return torch.stack([found.sum(1), known.sum(1)]).cpu().double()


def _ranks(maps: HeadMaps, seen: Bool[Tensor, "row key"]) -> HeadMaps:
    """Ranks of the visible weights of each row, ties shared, their mean subtracted; zero where hidden."""
    maps = maps.masked_fill(~seen, torch.inf).contiguous()
    ordered = maps.sort(-1).values
    below, upto = (torch.searchsorted(ordered, maps, right=right) for right in (False, True))
    ranks = (below + upto).to(maps.dtype)
    mean = (ranks * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)
    return (ranks - mean) * seen


def _head(layer: int, head: int, block: Block, space: ValueSpace, sums: _Sums) -> Head:
    attention = block.attention
    queries, keys = space.supports.shape
    ambiguity = space.ambiguity[head]
    determined = int((ambiguity == 0).sum())
    given = torch.cat(sums.given_keys, 1)[head] if sums.given_keys else None
    count, mean_raw, mean_effective, raw_square, effective_square, product = sums.moments[:, head].tolist()
    correlated, rows = sums.ranks[:, head].tolist()
    untouched = not sums.null[0, head]
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
        null_share=(sums.null[0, head].item() / raw_square) ** 0.5,
        null_share_row_sum=(sums.null[1, head].item() / raw_square) ** 0.5,
        pearson=1.0
        if untouched
        else _correlation(count, mean_raw, mean_effective, raw_square, effective_square, product),
        spearman=1.0 if untouched else correlated / rows if rows else float("nan"),
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


def _correlation(count: float, one: float, other: float, ones: float, others: float, product: float) -> float:
    """Pearson's correlation from sums; NaN where one side is constant."""
    covariance = product - one * other / count
    spread = (ones - one**2 / count) * (others - other**2 / count)
    return covariance / spread**0.5 if spread > 0 else float("nan")


def _classes(capture: Capture, block: Block) -> dict[str, Bool[Tensor, " key"]]:
    """The block's keys by the kind of token."""
    kinds = capture.tokens.kinds()[block.keys]
    return {name: torch.tensor([kind == name for kind in kinds]) for name in dict.fromkeys(kinds)}
