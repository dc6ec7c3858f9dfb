"""Attention flow: maximum flow through the layers, with attention weights as capacities."""

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from thalweg.aggregate.max_flow import Flow, max_flow
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.attention_graph import AttentionGraph
from thalweg.decompose.rows import normalised, relative_to
from thalweg.errors import InputError
from thalweg.methods import attention_rollout
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method, several_maps
from thalweg.progress import progress


@dataclass(frozen=True)
class Params(attention_rollout.Params):
    normalise: bool = option(True, "divide rows by their sum, as in the paper's code; otherwise raw flow values")
    solver: Literal["layered", "scipy"] = option("layered", "exact solver, or SciPy's integer solver as a check")


@method(
    params=Params,
    traits=Traits(
        rows_sum_to_one=True, layer_maps="steps", chain="flow", cost="high", max_tokens=512, max_tokens_all_targets=128
    ),
    paper="Abnar & Zuidema 2020, section 3",
    cost="one certified max flow per target and source: seconds at 256 tokens",
    guarantee="every flow is certified by a cut (the gap is in the receipt); rows sum to one",
    memory=lambda capture: several_maps(capture) + 2 * len(capture.blocks) * len(capture.tokens) ** 2 * _arrays(),
)
def attention_flow(capture: Capture, target: Target, params: Params) -> Maps:
    """Maximum flow from a position down to each input token, with attention weights as capacities.

    F_ij = maxflow((L, i) → (0, j)) where the edge (l, a) → (l − 1, b) carries at most A_l[a, b], with A_l as in
    `attention_rollout`. A path carries as much as its narrowest edge, and shared edges are not counted twice. Rows are
    normalised as in the paper's code; before that, flow is never below rollout. Limits: like rollout it ignores values,
    norms and MLPs, and it spreads over more tokens than rollout does.
    """
    if params.receptive_field and not params.normalise:
        raise InputError("receptive_field yields shares: it cannot be combined with normalise=False")
    graph = params.graph(capture, target)
    flow = _flow(graph, target, params.solver)
    scores = _bounded(flow)
    if params.receptive_field:
        even = _flow(params.graph(capture, target, even=True), target, params.solver)
        scores = relative_to(scores, _bounded(even))
    elif params.normalise:
        scores = normalised(scores)
    assumed = graph.assumed + params.assumptions()
    if any(bool((step < 0).any()) for step in graph.steps):
        assumed += ("negative effective attention carries no flow",)
    return Maps(
        scores,
        torch.stack(graph.steps),
        graph.parity,
        {"flow gap": flow.gap},
        assumed,
        chained=not params.receptive_field,
    )


def _arrays() -> int:
    """Arrays of all layers that the solver holds in double precision: three, and two for each of its threads."""
    return 3 + 2 * (os.cpu_count() or 1)


def _bounded(flow: Flow) -> Tensor:
    """The flow of each pair; a token that no block updates keeps all of itself, which is unbounded as a flow."""
    return torch.from_numpy(np.where(np.isinf(flow.value), 1.0, flow.value))


def _flow(graph: AttentionGraph, target: Target, solver: str) -> Flow:
    capacities = [step.cpu().double().numpy() for step in graph.capacities()]
    with progress("max flow") as report:
        return max_flow(capacities, targets=list(target.positions), solver=solver, progress=report)
