"""ALTI: how much each token contributes to a block's output, multiplied through the layers."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.axes import Step
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import Target
from thalweg.decompose.contribution_graph import contribution_graph
from thalweg.decompose.contributions import head_proximity, proximity
from thalweg.decompose.parts import decompose
from thalweg.errors import InputError
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    measure: Literal["l1", "l2"] = option("l1", "norm that says how near a part comes to the whole")
    head: int | None = option(None, "only what one head of the explained block brings; rows then sum to its share")
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product"),
    paper="Ferrando et al. 2022, sections 3 and 4",
    cost="about three forward passes at 256 tokens, growing with n²·d per layer",
    guarantee="parts add up to each block's real output; rows sum to one",
)
def alti(capture: Capture, target: Target, params: Params) -> Maps:
    """What each token brings into a block's output, values, norms and residual included, through all layers.

    c_ij = max(0, ‖y_i‖₁ − ‖y_i − T_i(x_j)‖₁), normalised over j, where y_i = Σ_j T_i(x_j) + biases is the real
    output of the attention block; R = C_L … C_1 without any added identity, since the residual is inside T. It
    ignores what MLPs do, has no sign, and is the same for every class: use `decompx` or `alti_logit` for those.
    """
    blocks = capture.upto(params.layer)
    heads = blocks[-1].attention.heads
    if params.head is not None and not 0 <= params.head < heads:
        raise InputError(f"head {params.head} was asked for, but {blocks[-1].name!r} has the heads 0 to {heads - 1}")
    graph = contribution_graph(capture, blocks, partial(proximity, measure=params.measure))
    if params.head is not None:
        graph.steps[-1] = _head_step(capture, blocks[-1], params.head, params.measure)
    return Maps(
        rollout(graph.steps, target.positions),
        torch.stack(graph.steps),
        graph.parity,
        figures=graph.figures,
        assumed=("MLPs keep each token's information in its place",),
    )


def _head_step(capture: Capture, block: Block, head: int, measure: Literal["l1", "l2"]) -> Step:
    """What one head brings, as its share of all heads and the residual; every other row and column is empty."""
    apart, own = head_proximity(decompose(block), measure)
    total = (apart.sum((0, 2)) + own).clamp_min(torch.finfo(own.dtype).tiny)
    count = len(capture.tokens)
    step = torch.zeros(count, count, dtype=own.dtype, device=own.device)
    step[block.queries, block.keys] = apart[head] / total[:, None]
    return step
