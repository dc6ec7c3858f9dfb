"""ALTI-Logit: what each block writes towards a logit, brought down to the input tokens with ALTI."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.capture.prove.linear_path import NormAt
from thalweg.capture.prove.mlp import residual_stream
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.contribution_graph import step_of
from thalweg.decompose.contributions import proximity
from thalweg.decompose.logits import answer, assumptions, require_sum, terms
from thalweg.decompose.parts import Parts, decompose
from thalweg.methods.params import LogitParams
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params(LogitParams):
    pass


@method(
    params=Params,
    traits=Traits(signed=True, explains_logit=True, serves=frozenset({"single sequence"})),
    paper="Ferrando et al. 2023, sections 3 and 4",
    cost="one more pass, and ALTI: about four forward passes at 256 tokens",
    guarantee="scores, MLPs, biases and the position's own embedding add up to the logit",
)
def alti_logit(capture: Capture, target: Target, params: Params) -> Maps:
    """How much each token adds to a class or a next token through attention, with its sign.

    r = Δ¹ + Σ_{l≥2} Δˡ R^{l−1}: what block l writes at the position that is read, from column j, towards the chosen
    logit (Δˡ_j = u · a Σ_h α_j^h g_j^h, where u is the logit's direction taken down through the linear parts of the
    norms above), shared among the input tokens as ALTI says that column j is made of them (R). What MLPs write, biases,
    and the embedding of the position itself belong to no token; they are figures in the receipt. With a `foil` it
    explains the difference of two logits. Not for encoder-decoders; for what tokens do through MLPs use `decompx`.
    """
    upper = residual_stream(capture)
    found = answer(capture, upper, target, params.output, params.foil)
    slope, biases = found.slopes()
    rows, slope, mlps = found.positions, slope[found.live], torch.zeros_like(found.value)
    scores = torch.zeros(len(rows), len(capture.tokens), dtype=slope.dtype, device=slope.device)
    for layer in reversed(upper.layers):
        block = layer.block
        if layer.norm is not None:
            if layer.norm.bias is not None:
                biases = biases + found.each(slope * layer.norm.bias.to(slope.dtype))
            deviation = layer.norm.deviation(layer.summed[rows].to(slope.dtype))
            slope = NormAt(layer.norm, deviation).transposed(slope)
        mlps = mlps + found.each(slope * layer.multiplier * layer.branch[rows].to(slope.dtype))
        parts = decompose(block)
        if layer is not upper.layers[-1]:
            scores = scores @ step_of(capture, block, proximity(parts, "l1"))[0]
        scores = scores + _update(parts, slope, rows)
        biases = biases + found.each(slope * parts.rest[rows])
        if block.norm is not None:
            slope = NormAt(block.norm, block.norm.deviation(block.summed[rows].to(slope.dtype))).transposed(slope)
    own = found.each(slope * capture.blocks[0].input[rows].to(slope.dtype))
    scores = scores.sum(0, keepdim=True) if found.pooled else scores
    figures = terms(found, scores, mlps=mlps, biases=biases, own_embedding=own)
    require_sum(figures, capture)
    return Maps(
        found.scores(scores, len(target.positions)),
        figures=figures,
        assumed=(
            "norms above are linear, with the deviations they had",
            "MLPs, biases and the position's own embedding belong to no token",
            *assumptions(found, capture, target),
        ),
    )


def _update(parts: Parts, slope: Float[Tensor, "row width"], rows: list[int]) -> Float[Tensor, "row source"]:
    """Δ: what attention alone, without the residual, writes at the rows towards the slope, from each column."""
    towards = torch.einsum("hkd,rd->hrk", parts.vectors, slope)
    weights = parts.block.weights()[:, rows].to(slope.dtype)
    return (weights * towards).sum(0) * parts.factor[rows]
