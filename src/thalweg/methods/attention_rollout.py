"""Attention rollout: residual-augmented attention, multiplied through the layers."""

from dataclasses import dataclass

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.aggregate.rows import relative_to
from thalweg.capture.record import Capture
from thalweg.decompose.attention_graph import GraphParams, attention_graph
from thalweg.registry import Maps, Target, method


@dataclass(frozen=True)
class Params(GraphParams):
    pass


@method(
    params=Params,
    paper="Abnar & Zuidema 2020, equation 1",
    cost="the weights of all layers; n² per target and layer",
    guarantee="rows sum to one",
)
def attention_rollout(capture: Capture, target: Target, params: Params) -> Maps:
    """Attention followed down to the input: every path counts the product of its weights.

    R = A_L … A_1 with A_l = r·I + (1 − r)·mean_h A_l^h, r the residual's share. It ignores values, norms and
    MLPs, and r = 0.5 overstates mixing in trained models: residual="measured" takes the share from the norms of
    what really flows (Kobayashi 2021). In causal models early tokens win because every later one can see them;
    receptive_field=True compares with a model that attends evenly.
    """
    graph = attention_graph(capture, target, params)
    scores = rollout(graph.steps, target.positions)
    if params.receptive_field:
        even = attention_graph(capture, target, params, even=True)
        scores = relative_to(scores, rollout(even.steps, target.positions))
    return Maps(scores, torch.stack(graph.steps), graph.parity, assumed=graph.assumed)
