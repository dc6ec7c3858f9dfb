"""Attention as a layered graph: one map per block over all tokens, residual included.

Rollout multiplies these maps; flow uses them as capacities.
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
from thalweg.indices import check_index
from thalweg.numerics import worst

Share = float | Literal["measured"]
Weights = Literal["attention", "attention_gradient", "effective", "effective_row_sum"]
Reweight = Callable[[slice, HeadMaps], HeadMaps]  # from the attention weights of some rows to edge weights


@dataclass(frozen=True, eq=False)
class AttentionGraph:
    """The maps of all blocks up to the one being explained, lowest first."""

    steps: tuple[Step, ...]
    blocks: tuple[Block, ...]
    parity: tuple[float, ...]
    assumed: tuple[str, ...]

    def capacities(self) -> list[Step]:
        """The steps as capacities: negative edges carry nothing, and tokens that a block leaves alone have no limit."""
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
) -> AttentionGraph:
    """Each block as own · I + (1 − own) · W with rows that sum to one (with effective attention: rows as they are).

    With `even`, W spreads evenly over the keys that a query can see: the graph of a model without preferences.
    """
    if not isinstance(residual, str) and not 0 <= residual <= 1:
        raise InputError(f"residual must be a share from 0 to 1, or 'measured', got {residual}")
    effective = weights in ("effective", "effective_row_sum")
    if effective and residual == "measured":
        raise InputError(
            f"residual='measured' needs the model's own attention weights; with weights={weights!r} pass a share "
            "from 0 to 1"
        )
    blocks = capture.upto(layer)
    use_slopes = weights == "attention_gradient" and not even
    slopes = head_slopes(capture, target) if use_slopes else [None] * len(capture.blocks)
    steps, parities = [], []
    for block, slope in zip(blocks, slopes, strict=False):
        if even:
            visible = block.attention.visible().to(block.summed.dtype)
            edges, parity = visible / visible.sum(-1, keepdim=True), 0.0
        else:
            edges, parity = block_weights(
                block, head if block is blocks[-1] else None, _reweighting(block, weights, slope)
            )
        if block.attention.has_sinks and not effective:
            edges = normalised(edges)
        step = _step(capture, block, edges, residual)
        steps.append(step if effective else normalised(step))
        parities.append(parity)
    return AttentionGraph(tuple(steps), blocks, tuple(parities), _assumptions(capture, residual, weights))


def _reweighting(block: Block, weights: Weights, slopes: Slopes | None) -> Reweight | None:
    if slopes is not None:
        return partial(gradient_weights, block.attention, slopes)
    return None if weights == "attention" else effective_weights(block, weights == "effective_row_sum")


def effective_weights(block: Block, row_sum: bool) -> Reweight:
    """Attention without its null-space component; with `row_sum` rows keep their sum of one."""
    return partial(value_space(block).effective, row_sum=row_sum)


def block_weights(block: Block, head: int | None = None, reweight: Reweight | None = None) -> tuple[TokenMap, float]:
    """The mean of a block's heads, or one of them, and the worst parity of its rows."""
    if head is not None:
        check_index("head", head, block.attention.heads)
    maps, parities = [], []
    for rows, weights, parity in block.rows():
        parities.append(parity)
        weights = weights if reweight is None else reweight(rows, weights)
        maps.append(weights.mean(0) if head is None else weights[head])
    return torch.cat(maps), worst(parities)


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
        return ("the residual and attention times its gradient are added, and rows divided by their sum",)
    assumed = [
        "the residual's share is measured for each position, from the norms of the parts"
        if isinstance(residual, str)
        else f"the residual keeps a share of {residual:g} in every layer"
    ]
    if weights != "attention":
        assumed.append("weights are effective attention: they may be negative, and rows may not sum to one")
    elif any(block.attention.has_sinks for block in capture.blocks):
        assumed.append("attention to sinks is spread over the tokens")
    return tuple(assumed)
