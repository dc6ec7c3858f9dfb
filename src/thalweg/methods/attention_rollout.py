"""Attention rollout: residual-augmented attention, multiplied through the layers."""

from dataclasses import dataclass

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.capture.record import Capture
from thalweg.decompose.attention_weights import head_weights, over_all_tokens
from thalweg.errors import InputError
from thalweg.registry import Maps, Target, method, option


@dataclass(frozen=True)
class Params:
    residual: float = option(0.5, "share of each position that the residual keeps, from 0 to 1")
    layer: int = option(
        -1, "attention block to explain, from 0; negative numbers count from the top"
    )
    head: int | None = option(None, "one head of that block over the mean of the heads below")


@method(
    params=Params,
    paper="Abnar & Zuidema 2020, equation 1",
    cost="the weights of all layers; n² per target and layer",
    guarantee="rows sum to one",
)
def attention_rollout(capture: Capture, target: Target, params: Params) -> Maps:
    """Attention followed down to the input: every path counts the product of its weights.

    R = A_L … A_1 with A_l = r·I + (1 − r)·mean_h A_l^h, r the residual's share. It ignores values,
    norms and MLPs, and r = 0.5 overstates mixing in trained models.
    """
    if not 0 <= params.residual <= 1:
        raise InputError(f"residual was given {params.residual}; expected a share from 0 to 1")
    top = capture.block(params.layer)
    steps, parity = [], []
    for block in capture.blocks[: capture.blocks.index(top) + 1]:
        checked = head_weights(block, params.head if block is top else None)
        weights = checked.map
        if block.attention.has_sinks:
            weights = weights / weights.sum(-1, keepdim=True)
        steps.append(over_all_tokens(capture, block, weights, params.residual))
        parity.append(checked.parity)
    sinks = any(block.attention.has_sinks for block in capture.blocks)
    return Maps(
        scores=rollout(steps, target.positions),
        per_layer=torch.stack(steps),
        parity=tuple(parity),
        assumed=(
            f"the residual keeps a share of {params.residual:g} in every layer",
            *(("attention that went to sinks is spread over the tokens",) if sinks else ()),
        ),
    )
