"""Raw attention: the attention weights of one layer."""

from dataclasses import dataclass

import torch

from thalweg.axes import TokenMap
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import Target
from thalweg.decompose.attention_graph import block_weights
from thalweg.errors import InputError
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "attention block to read, from 0; negative numbers count from the top")
    head: int | None = option(None, "head to read, from 0 (default: the mean of all heads)")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, cost="low"),
    paper="Abnar & Zuidema 2020, section 2",
    cost="attention weights of one layer",
    guarantee="rows sum to one, unless the model has attention sinks",
)
def raw_attention(capture: Capture, target: Target, params: Params) -> Maps:
    """Attention weights of one layer, averaged over heads or of one head.

    A_ij of the chosen layer. Limits: it ignores the mixing in the layers below and the size of the values; above the
    first layers it rarely points at input tokens.
    """
    block = capture.block(params.layer)
    weights, parity = block_weights(block, params.head)
    sinks = ("attention sinks take a part of each row",) if block.attention.has_sinks else ()
    return block_maps(capture, target, block, weights, parity, sinks)


def block_maps(
    capture: Capture, target: Target, block: Block, weights: TokenMap, parity: float, assumed: tuple[str, ...]
) -> Maps:
    """The rows of one block's map at the target's positions."""
    count = len(capture.tokens)
    outside = [p for p in target.positions if not block.queries.start <= p < block.queries.stop]
    if outside:
        raise InputError(
            f"target must be a position from {block.queries.start} to {block.queries.stop - 1}, the queries of "
            f"{block.name!r}, got {outside[0]}; choose another target or layer"
        )
    full = torch.zeros(count, count, dtype=weights.dtype, device=weights.device)
    full[block.queries, block.keys] = weights
    return Maps(scores=full[list(target.positions)], per_layer=full[None], parity=(parity,), assumed=assumed)
