"""ALTI: contributions of tokens to block outputs, multiplied through the layers."""

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
from thalweg.indices import check_index
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    measure: Literal["l1", "l2"] = option("l1", "norm that measures how close a part comes to the block's output")
    head: int | None = option(None, "explain one head of the block only; rows then sum to its share")
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product"),
    paper="Ferrando et al. 2022, sections 3 and 4",
    cost="about three forward passes at 256 tokens, growing with n²·d per layer",
    guarantee="parts sum to each block's real output; rows sum to one",
)
def alti(capture: Capture, target: Target, params: Params) -> Maps:
    """Contribution of each token to the block outputs (values, norms, residual), multiplied through the layers.

    c_ij = max(0, ‖y_i‖₁ − ‖y_i − T_i(x_j)‖₁), normalised over j, where y_i = Σ_j T_i(x_j) + biases is the real
    output of the attention block; R = C_L … C_1 without an added identity, since T includes the residual. Limits:
    it leaves out MLPs, has no sign, and is the same for every class; use `alti_logit` or `decompx` to explain a class.
    """
    blocks = capture.upto(params.layer)
    if params.head is not None:
        check_index("head", params.head, blocks[-1].attention.heads)
    graph = contribution_graph(capture, blocks, partial(proximity, measure=params.measure))
    steps = graph.steps
    if params.head is not None:
        steps = (*steps[:-1], _head_step(capture, blocks[-1], params.head, params.measure))
    return Maps(
        rollout(steps, target.positions),
        torch.stack(steps),
        graph.parity,
        figures=graph.figures,
        assumed=("MLPs keep each token's information in its place",),
    )


def _head_step(capture: Capture, block: Block, head: int, measure: Literal["l1", "l2"]) -> Step:
    """The contributions of one head as shares of all heads and the residual; other rows and columns are zero."""
    by_head, own = head_proximity(decompose(block), measure)
    total = (by_head.sum((0, 2)) + own).clamp_min(torch.finfo(own.dtype).tiny)
    count = len(capture.tokens)
    step = torch.zeros(count, count, dtype=own.dtype, device=own.device)
    step[block.queries, block.keys] = by_head[head] / total[:, None]
    return step
