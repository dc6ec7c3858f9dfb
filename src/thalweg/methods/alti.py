"""ALTI: how much each token contributes to a block's output, multiplied through the layers."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.capture.record import Capture
from thalweg.decompose.contribution_graph import contribution_graph
from thalweg.decompose.contributions import proximity
from thalweg.registry import Maps, Target, method, option


@dataclass(frozen=True)
class Params:
    measure: Literal["l1", "l2"] = option("l1", "norm that says how near a part comes to the whole")
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")


@method(
    params=Params,
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
    top = capture.block(params.layer)
    blocks = capture.blocks[: capture.blocks.index(top) + 1]
    graph = contribution_graph(capture, blocks, partial(proximity, measure=params.measure))
    return Maps(
        rollout(graph.steps, target.positions),
        torch.stack(graph.steps),
        figures=graph.figures,
        assumed=("MLPs keep each token's information in its place",),
    )
