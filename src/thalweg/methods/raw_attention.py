"""The attention weights of one layer, as they are."""

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
    head: int | None = option(None, "head to read, from 0; the mean of all heads when left out")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, cost="low"),
    paper="Abnar & Zuidema 2020, section 2",
    cost="the weights of one layer",
    guarantee="rows sum to one, unless the model has attention sinks",
)
def raw_attention(capture: Capture, target: Target, params: Params) -> Maps:
    """Where one layer looks: its attention weights, the mean of the heads or one head.

    A_ij of the chosen layer. It says nothing about what the layers below mixed into a position, and
    nothing about the size of what is looked at; above the first layers it rarely points at inputs.
    """
    block = capture.block(params.layer)
    weights, parity = block_weights(block, params.head)
    sinks = ("attention sinks take part of each row",) if block.attention.has_sinks else ()
    return one_block(capture, target, block, weights, parity, sinks)


def one_block(
    capture: Capture, target: Target, block: Block, weights: TokenMap, parity: float, assumed: tuple[str, ...]
) -> Maps:
    """The rows of one block's map at the target's positions."""
    count = len(capture.tokens)
    outside = [p for p in target.positions if not block.queries.start <= p < block.queries.stop]
    if outside:
        raise InputError(
            f"position {outside[0]} is not a query of {block.name!r}, whose queries are the positions "
            f"{block.queries.start} to {block.queries.stop - 1}; choose another target or layer"
        )
    full = torch.zeros(count, count, dtype=weights.dtype, device=weights.device)
    full[block.queries, block.keys] = weights
    return Maps(scores=full[list(target.positions)], per_layer=full[None], parity=(parity,), assumed=assumed)
