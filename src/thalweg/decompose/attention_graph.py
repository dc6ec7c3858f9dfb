"""Attention as a layered graph: one map per block over all tokens, residual included.

Rollout multiplies these maps, flow takes them as capacities, so their options live here.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import HeadMaps, Step, TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.decompose.gradients import Slopes, gradient_weights, head_slopes
from thalweg.decompose.parts import decompose, mixing_ratio
from thalweg.errors import InputError, ProofError
from thalweg.registry import Target, option


@dataclass(frozen=True)
class GraphParams:
    """What rollout and flow have in common."""

    residual: float | Literal["measured"] = option(
        0.5, "share of each position that the residual keeps, from 0 to 1, or measured for each position"
    )
    weights: Literal["attention", "attention_gradient"] = option(
        "attention", "edges: attention, or the positive part of attention times its gradient"
    )
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")
    head: int | None = option(None, "one head of that block over the mean of the heads below")
    receptive_field: bool = option(
        False, "divide by what even attention would give, since a causal mask favours early tokens"
    )


@dataclass(frozen=True, eq=False)
class Graph:
    """The maps of all blocks up to the one that is explained, lowest first."""

    steps: list[Step]
    blocks: tuple[Block, ...]
    parity: tuple[float, ...]
    assumed: tuple[str, ...]

    def capacities(self) -> list[Step]:
        """The same as capacities: a token that a block does not touch passes without limit."""
        capacities = []
        for step, block in zip(self.steps, self.blocks, strict=True):
            untouched = torch.ones(len(step), dtype=torch.bool, device=step.device)
            untouched[block.queries] = False
            capacities.append(step + torch.diag(torch.where(untouched, inf, 0.0).to(step.dtype)))
        return capacities


def attention_graph(capture: Capture, target: Target, params: GraphParams, even: bool = False) -> Graph:
    """Each block as own · I + (1 − own) · W, its rows summing to one.

    With `even` W spreads evenly over the keys that a query may see: the graph of a model that looks at nothing
    in particular, which `receptive_field` compares with.
    """
    _check_share(params.residual)
    top = capture.block(params.layer)
    chosen = capture.blocks[: capture.blocks.index(top) + 1]
    use_slopes = params.weights == "attention_gradient" and not even
    slopes = head_slopes(capture, target) if use_slopes else [None] * len(capture.blocks)
    steps, parity = [], []
    for block, slope in zip(chosen, slopes, strict=False):
        if even:
            seen = block.attention.visible().to(block.summed.dtype)
            weights, worst = seen / seen.sum(-1, keepdim=True), 0.0
        else:
            weights, worst = block_weights(block, params.head if block is top else None, slope)
        steps.append(_step(capture, block, weights, params.residual))
        parity.append(worst)
    return Graph(steps, chosen, tuple(parity), _assumptions(capture, params))


def block_weights(block: Block, head: int | None = None, slopes: Slopes | None = None) -> tuple[TokenMap, float]:
    """The mean of a block's heads, or one of them, and the worst parity of its rows."""
    heads = block.attention.heads
    if head is not None and not 0 <= head < heads:
        raise InputError(f"head {head} was asked for, but {block.name!r} has the heads 0 to {heads - 1}")
    maps, worst = [], 0.0
    for rows, weights, parity in block.attention.blocks():
        worst = max(worst, parity)
        if slopes is not None:
            weights = gradient_weights(block.attention, slopes, rows, weights)
        maps.append(_fused(weights, head))
    if not worst <= block.tolerance:
        raise ProofError(
            f"weights times values of {block.name!r} differ from the model's kernel by {worst:.1e} of their size "
            f"where {block.tolerance:.1e} is allowed"
        )
    return torch.cat(maps), worst


def _fused(weights: HeadMaps, head: int | None) -> TokenMap:
    return weights.mean(0) if head is None else weights[head]


def _step(capture: Capture, block: Block, weights: TokenMap, residual: float | Literal["measured"]) -> Step:
    """The block's map of all tokens; those it does not touch keep what they have."""
    share: float | Float[Tensor, "query 1"]
    if residual == "measured":
        share = 1 - mixing_ratio(decompose(block))[:, None].to(weights.dtype)
        if block.queries == block.keys:  # the ratio counts attention to oneself as kept
            weights = weights - torch.diag(weights.diagonal())
            others = weights.sum(-1, keepdim=True)
            weights = weights / others.clamp_min(torch.finfo(weights.dtype).tiny)
            share = torch.where(others > 0, share, 1.0)
    else:
        share = float(residual)
    count = len(capture.tokens)
    step = torch.eye(count, dtype=weights.dtype, device=weights.device)
    step[block.queries] *= share
    step[block.queries, block.keys] += (1 - share) * weights
    return step / step.sum(-1, keepdim=True).clamp_min(torch.finfo(step.dtype).tiny)


def _check_share(residual: float | str) -> None:
    if not isinstance(residual, str) and not 0 <= residual <= 1:
        raise InputError(f"residual was given {residual}; expected a share from 0 to 1, or 'measured'")


def _assumptions(capture: Capture, params: GraphParams) -> tuple[str, ...]:
    share = params.residual
    said = [
        "the residual's share is measured from the norms of the parts, for each position"
        if isinstance(share, str)
        else f"the residual keeps a share of {share:g} in every layer"
    ]
    if any(block.attention.has_sinks for block in capture.blocks):
        said.append("attention that went to sinks is spread over the tokens")
    if params.receptive_field:
        said.append("scores are relative to what even attention would give")
    return tuple(said)
