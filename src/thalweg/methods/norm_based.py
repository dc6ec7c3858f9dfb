"""Norm-based analysis: norms of tokens' contributions to block outputs, multiplied through the layers."""

from dataclasses import dataclass
from typing import Literal

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.contribution_graph import contribution_graph
from thalweg.decompose.contributions import norms
from thalweg.decompose.parts import decompose, mixing_ratio
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    include: Literal["attention", "residual", "block"] = option(
        "block", "attention alone (Kobayashi 2020), with the residual, or with the residual and its norm (2021)"
    )
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product"),
    paper="Kobayashi et al. 2020 and 2021",
    cost="as ALTI",
    guarantee="parts sum to each block's real output; rows sum to one",
)
def norm_based(capture: Capture, target: Target, params: Params) -> Maps:
    """Norm of each token's contribution to the block outputs (values, norms, residual), multiplied through the layers.

    ‖T_i(x_j)‖₂, normalised over j, and the product over layers without an added identity; with include="attention"
    ‖Σ_h α_ij^h f^h(x_j)‖₂ alone. The receipt contains the mean mixing ratio, the share of other tokens in a
    block's output. Limits: a large part need not point in the direction of the output, which `alti` measures; MLPs are
    left out, and there is no sign.
    """
    blocks = capture.upto(params.layer)
    graph = contribution_graph(capture, blocks, norms, params.include)
    ratios = torch.cat([mixing_ratio(decompose(block)) for block in blocks])
    return Maps(
        rollout(graph.steps, target.positions),
        torch.stack(graph.steps),
        graph.parity,
        figures={**graph.figures, "mean mixing ratio": float(ratios.mean())},
        assumed=("MLPs keep each token's information in its place",),
    )
