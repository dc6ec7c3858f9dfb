"""Attention as a layered graph: one map per block over all tokens, residual included.

Rollout multiplies these maps, flow takes them as capacities.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Literal

import torch

from thalweg.axes import HeadMaps, Step, TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import Target
from thalweg.decompose.gradients import Slopes, gradient_weights, head_slopes
from thalweg.decompose.layout import over_all_tokens
from thalweg.decompose.parts import decompose, mixing_ratio
from thalweg.decompose.rows import normalised
from thalweg.decompose.value_space import value_space
from thalweg.errors import InputError
from thalweg.numerics import worst

Share = float | Literal["measured"]
Weights = Literal["attention", "attention_gradient", "effective", "effective_row_sum"]
Change = Callable[[slice, HeadMaps], HeadMaps]  # from the weights of some rows to what is used in their place


@dataclass(frozen=True, eq=False)
class Graph:
    """The maps of all blocks up to the one that is explained, lowest first."""

    steps: list[Step]
    blocks: tuple[Block, ...]
    parity: tuple[float, ...]
    assumed: tuple[str, ...]

    def capacities(self) -> list[Step]:
        """The same as capacities: an untouched token passes without limit, and nothing passes below zero."""
        capacities = []
        for step, block in zip(self.steps, self.blocks, strict=True):
            untouched = torch.ones(len(step), dtype=torch.bool, device=step.device)
            untouched[block.queries] = False
            capacities.append(step.clamp_min(0) + torch.diag(torch.where(untouched, inf, 0.0).to(step.dtype)))
        return capacities


def attention_graph(
    capture: Capture,
    target: Target,
    *,
    residual: Share = 0.5,
    weights: Weights = "attention",
    layer: int = -1,
    head: int | None = None,
    even: bool = False,
) -> Graph:
    """Each block as own · I + (1 − own) · W, its rows summing to one (with effective attention: as they are).

    With `even` W spreads evenly over the keys that a query may see: the graph of a model that looks at nothing
    in particular.
    """
    if not isinstance(residual, str) and not 0 <= residual <= 1:
        raise InputError(f"residual was given {residual}; expected a share from 0 to 1, or 'measured'")
    effective = weights in ("effective", "effective_row_sum")
    if effective and residual == "measured":
        raise InputError(
            "a measured residual needs attention's own weights; give a share from 0 to 1 with effective ones"
        )
    chosen = capture.upto(layer)
    use_slopes = weights == "attention_gradient" and not even
    slopes = head_slopes(capture, target) if use_slopes else [None] * len(capture.blocks)
    steps, parity = [], []
    for block, slope in zip(chosen, slopes, strict=False):
        if even:
            seen = block.attention.visible().to(block.summed.dtype)
            edges, error = seen / seen.sum(-1, keepdim=True), 0.0
        else:
            change = _change(block, weights, slope)
            edges, error = block_weights(block, head if block is chosen[-1] else None, change)
        if block.attention.has_sinks and not effective:
            edges = normalised(edges)
        step = _step(capture, block, edges, residual)
        steps.append(step if effective else normalised(step))
        parity.append(error)
    return Graph(steps, chosen, tuple(parity), _assumptions(capture, residual, weights))


def _change(block: Block, weights: Weights, slopes: Slopes | None) -> Change | None:
    if slopes is not None:
        return partial(gradient_weights, block.attention, slopes)
    return None if weights == "attention" else effective_weights(block, weights == "effective_row_sum")


def effective_weights(block: Block, row_sum: bool) -> Change:
    """Attention without what has no effect on the head's output, its rows summing to one if asked for."""
    return partial(value_space(block).effective, row_sum=row_sum)


def block_weights(block: Block, head: int | None = None, change: Change | None = None) -> tuple[TokenMap, float]:
    """The mean of a block's heads, or one of them, and the worst parity of its rows."""
    if head is not None:
        check_head(block, head)
    maps, parities = [], []
    for rows, weights, parity in block.rows():
        parities.append(parity)
        maps.append(_fused(weights if change is None else change(rows, weights), head))
    return torch.cat(maps), worst(parities)


def check_head(block: Block, head: int) -> None:
    """Refuse a head that the block does not have."""
    heads = block.attention.heads
    if not isinstance(head, int) or isinstance(head, bool) or not 0 <= head < heads:
        raise InputError(f"head {head} was asked for, but {block.name!r} has the heads 0 to {heads - 1}")


def _fused(weights: HeadMaps, head: int | None) -> TokenMap:
    return weights.mean(0) if head is None else weights[head]


def _step(capture: Capture, block: Block, weights: TokenMap, residual: Share) -> Step:
    if residual == "measured":
        share = 1 - mixing_ratio(decompose(block)).to(weights.dtype)  # [query]
        if block.queries == block.keys:  # the ratio counts attention to oneself as kept
            weights = weights - torch.diag(weights.diagonal())
            others = weights.sum(-1)
            weights = weights / others.clamp_min(torch.finfo(weights.dtype).tiny)[:, None]
            share = torch.where(others > 0, share, 1.0)
    else:
        share = torch.full((len(weights),), float(residual), dtype=weights.dtype, device=weights.device)
    return over_all_tokens(capture, block, (1 - share)[:, None] * weights, share)


def _assumptions(capture: Capture, residual: Share, weights: Weights) -> tuple[str, ...]:
    if weights == "attention_gradient":
        return ("the residual and attention times its gradient are added up, and rows divided by their sum",)
    said = [
        "the residual's share is measured from the norms of the parts, for each position"
        if isinstance(residual, str)
        else f"the residual keeps a share of {residual:g} in every layer"
    ]
    if weights != "attention":
        said.append("weights are effective attention: they may be negative, and rows may not sum to one")
    elif any(block.attention.has_sinks for block in capture.blocks):
        said.append("attention that went to sinks is spread over the tokens")
    return tuple(said)
