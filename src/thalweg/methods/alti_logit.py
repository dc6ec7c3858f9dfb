"""ALTI-Logit: what each block adds to a logit, attributed to the input tokens with ALTI."""

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.capture.prove.linear_path import NormAt
from thalweg.capture.prove.mlp import residual_stream
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.contribution_graph import step_of
from thalweg.decompose.contributions import proximity
from thalweg.decompose.logits import assumptions, explained_logit, require_sum, terms
from thalweg.decompose.parts import Parts, decompose
from thalweg.methods.params import LogitParams
from thalweg.methods.registry import Maps, Traits, method, several_maps


@method(
    params=LogitParams,
    traits=Traits(signed=True, explains_logit=True, sums_to_logit=True, serves=frozenset({"single sequence"})),
    paper="Ferrando et al. 2023, sections 3 and 4",
    cost="about four forward passes at 256 tokens: ALTI and one extra pass",
    guarantee="scores, MLPs, biases and the position's own embedding sum to the logit",
    memory=lambda capture: several_maps(capture) + 2 * capture.blocks[0].attention.heads * len(capture.tokens) ** 2,
)
def alti_logit(capture: Capture, target: Target, params: LogitParams) -> Maps:
    """Signed contribution of each token to a logit through attention.

    r = Δ¹ + Σ_{l≥2} Δˡ R^{l−1}, where Δˡ_j = u · a Σ_h α_j^h g_j^h is what block l adds to the logit from column j, at
    the position where the logit is read (u is the logit's direction, pulled back through the linear parts of the norms
    above), and R^{l−1} is ALTI's share of each input token in column j. MLPs, biases and the embedding of the position
    itself belong to no token; they are figures in the receipt. With a `foil` it explains the difference of two logits.
    Limits: encoder-decoders are not supported; use `decompx` for contributions through MLPs.
    """
    stream = residual_stream(capture)
    logit = explained_logit(capture, stream, target, params.output, params.foil)
    slope, biases = logit.slopes()
    rows, slope, mlps = logit.positions, slope[logit.live], torch.zeros_like(logit.value)
    scores = torch.zeros(len(rows), len(capture.tokens), dtype=slope.dtype, device=slope.device)
    for layer in reversed(stream.layers):
        block = layer.block
        if layer.norm is not None:
            if layer.norm.bias is not None:
                biases = biases + logit.sum_rows(slope * layer.norm.bias.to(slope.dtype))
            deviation = layer.norm.deviation(layer.summed[rows].to(slope.dtype))
            slope = NormAt(layer.norm, deviation).transposed(slope)
        mlps = mlps + logit.sum_rows(slope * layer.multiplier * layer.branch[rows].to(slope.dtype))
        parts = decompose(block)
        if layer is not stream.layers[-1]:
            scores = scores @ step_of(capture, block, proximity(parts, "l1")[0])[0]
        scores = scores + _update(parts, slope, rows)
        biases = biases + logit.sum_rows(slope * parts.rest[rows])
        if block.norm is not None:
            slope = NormAt(block.norm, block.norm.deviation(block.summed[rows].to(slope.dtype))).transposed(slope)
    own = logit.sum_rows(slope * capture.blocks[0].input[rows].to(slope.dtype))
    scores = scores.sum(0, keepdim=True) if logit.pooled else scores
    figures = terms(logit, scores, mlps=mlps, biases=biases, own_embedding=own)
    require_sum(figures, capture)
    return Maps(
        logit.scores(scores, len(target.positions)),
        figures=figures,
        assumed=(
            "norms are linear, with the deviations of this pass",
            "MLPs, biases and the position's own embedding belong to no token",
            *assumptions(logit, capture, target),
        ),
    )


def _update(parts: Parts, slope: Float[Tensor, "row width"], rows: list[int]) -> Float[Tensor, "row source"]:
    """Δ: what attention alone, without the residual, adds at the rows along the slope, from each column."""
    towards = torch.einsum("hkd,rd->hrk", parts.vectors, slope)
    weights = parts.block.weights()[:, rows].to(slope.dtype)
    return (weights * towards).sum(0) * parts.factor[rows]
