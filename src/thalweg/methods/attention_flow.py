"""Attention flow: the largest flow that attention, taken as pipes, lets through."""

from dataclasses import dataclass
from typing import Literal

import torch

from thalweg.aggregate.max_flow import Flow, max_flow
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.attention_graph import Graph
from thalweg.decompose.rows import normalised, relative_to
from thalweg.errors import InputError
from thalweg.methods import attention_rollout
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.progress import progress


@dataclass(frozen=True)
class Params(attention_rollout.Params):
    normalise: bool = option(True, "rows divided by their sum, as in the paper's code; raw flow values if not")
    solver: Literal["layered", "scipy"] = option("layered", "the exact solver, or SciPy's to check it with")


@method(
    params=Params,
    traits=Traits(
        rows_sum_to_one=True, layer_maps="steps", chain="flow", cost="high", max_tokens=512, max_tokens_all_targets=128
    ),
    paper="Abnar & Zuidema 2020, section 3",
    cost="the weights of all layers; a certified max flow for every pair",
    guarantee="every flow is built and meets a cut: the gap is in the receipt",
)
def attention_flow(capture: Capture, target: Target, params: Params) -> Maps:
    """Attention as a network of pipes: the largest flow from a position down to each input token.

    F_ij = maxflow((L, i) → (0, j)) where the edge (l, a) → (l − 1, b) holds at most A_l[a, b], with A_l as in
    attention_rollout. A path is worth its narrowest edge, and shared edges are not counted twice. Rows are
    normalised as in the paper's code. Flow spreads over more tokens than rollout and is never below it before
    rows are normalised.
    """
    if params.receptive_field and not params.normalise:
        raise InputError("receptive_field gives shares; raw flow values cannot be asked for with it")
    graph = params.graph(capture, target)
    flow = _flow(graph, target, params.solver)
    scores = torch.from_numpy(flow.value)
    if params.receptive_field:
        even = _flow(params.graph(capture, target, even=True), target, params.solver)
        scores = relative_to(scores, torch.from_numpy(even.value))
    elif params.normalise:
        scores = normalised(scores)
    said = graph.assumed + params.said()
    if any(bool((step < 0).any()) for step in graph.steps):
        said += ("where effective attention is negative nothing flows",)
    return Maps(
        scores,
        torch.stack(graph.steps),
        graph.parity,
        {"flow gap": flow.gap},
        said,
        chained=not params.receptive_field,
    )


def _flow(graph: Graph, target: Target, solver: str) -> Flow:
    capacities = [step.cpu().double().numpy() for step in graph.capacities()]
    with progress("max flow") as report:
        return max_flow(capacities, targets=list(target.positions), solver=solver, progress=report)
