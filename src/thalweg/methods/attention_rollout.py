"""Attention rollout: attention with the residual, multiplied through the layers."""

from dataclasses import dataclass

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.attention_graph import AttentionGraph, Share, Weights, attention_graph
from thalweg.decompose.rows import relative_to
from thalweg.errors import InputError
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    residual: Share = option(0.5, "share that the residual keeps, from 0 to 1, or measured for each position")
    weights: Weights = option(
        "attention",
        "edges: attention, the positive part of attention times its gradient, or effective attention "
        "(as in Brunner et al.; effective_row_sum keeps rows summing to one)",
    )
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")
    head: int | None = option(None, "one head of that block, over the mean of the heads in the blocks below")
    receptive_field: bool = option(
        False, "divide by the scores of uniform attention, since a causal mask favours early tokens"
    )

    def assumptions(self) -> tuple[str, ...]:
        return ("scores are relative to those of uniform attention",) if self.receptive_field else ()

    def graph(self, capture: Capture, target: Target, even: bool = False) -> AttentionGraph:
        """The graph for these parameters; with `even`, that of uniform attention."""
        if self.receptive_field and self.weights != "attention":
            raise InputError(
                f"receptive_field compares attention with uniform attention, so weights must be 'attention', got "
                f"{self.weights!r}"
            )
        return attention_graph(
            capture,
            target,
            residual=self.residual,
            weights=self.weights,
            layer=self.layer,
            head=self.head,
            even=even,
        )


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product", cost="low"),
    paper="Abnar & Zuidema 2020, equation 1",
    cost="attention weights of all layers, then n² per target and layer",
    guarantee="rows sum to one",
)
def attention_rollout(capture: Capture, target: Target, params: Params) -> Maps:
    """Attention with the residual connection, multiplied through the layers.

    R = A_L … A_1 with A_l = r·I + (1 − r)·mean_h A_l^h, r the residual's share. Limits: it ignores values, norms and
    MLPs, and r = 0.5 overstates mixing in trained models; residual="measured" takes the share from the norms of
    the real contributions (Kobayashi 2021). In causal models early tokens score high because every later token can see
    them; receptive_field=True compares with a model that attends evenly.
    """
    graph = params.graph(capture, target)
    scores = rollout(graph.steps, target.positions)
    if params.receptive_field:
        even = params.graph(capture, target, even=True)
        scores = relative_to(scores, rollout(even.steps, target.positions))
    return Maps(
        scores,
        torch.stack(graph.steps),
        graph.parity,
        assumed=graph.assumed + params.assumptions(),
        chained=not params.receptive_field,
    )
