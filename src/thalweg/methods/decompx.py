"""DecompX: one vector per token, propagated through every component up to a logit."""

from dataclasses import dataclass
from typing import Literal

from thalweg.capture.prove.mlp import residual_stream
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.logits import assumptions, explained_logit, require_sum, terms
from thalweg.decompose.propagation import Propagation
from thalweg.methods.params import LogitParams, option
from thalweg.methods.registry import Maps, Traits, method

PEAK_ARRAYS = 8  # of [n, n, d] numbers; 7.9 to 9.2 were measured, the allocator's share included


@dataclass(frozen=True)
class Params(LogitParams):
    biases: Literal["absdot", "apart"] = option(
        "absdot", "share biases among the tokens by |bias · token's vector|, or keep them apart as a figure"
    )


@method(
    params=Params,
    traits=Traits(
        signed=True,
        explains_logit=True,
        sums_to_logit=True,
        cost="high",
        max_tokens=256,
        serves=frozenset({"single sequence"}),
    ),
    paper="Modarressi et al. 2023, section 3",
    cost="about n/2 forward passes and n²·d numbers in memory: one vector per pair of tokens",
    guarantee="scores sum to the logit; with biases=apart, scores and biases do",
    memory=lambda capture: PEAK_ARRAYS * len(capture.tokens) ** 2 * capture.width,
)
def decompx(capture: Capture, target: Target, params: Params) -> Maps:
    """Signed contribution of each token to a logit, as vectors propagated through attention, MLPs and head.

    y_c = Σ_k y_{c⇐k}: every position starts as its own vector x_{i⇐i}. Attention with its weights, norms with their
    deviations, MLPs with their activations' slopes from the origin f(z)/z, residuals and the head are linear at their
    real inputs, so the vectors x_{i⇐k} always sum to the model's states. A gated MLP f(g) ⊙ u is linear in u, with
    its gate fixed. A bias b is shared in proportion to |b · x_{i⇐k}|; the biases of values and output are first merged
    to b_Att = W_O b_V + b_O and shared by |b_Att · z_{i⇐k}|, z the attention part without the residual, as in
    equations 3 to 6 of the paper (its public code does otherwise). Limits: it holds several arrays of [n, n, d] numbers
    (200 MB each at 256 tokens and d = 768), so it is not for long texts; mixtures of experts and encoder-decoders are
    not supported.
    """
    stream = residual_stream(capture)
    logit = explained_logit(capture, stream, target, params.output, params.foil)
    propagation = Propagation(params.biases)
    every_row = list(range(len(capture.tokens)))
    parts = propagation.start(capture)
    for layer, values in zip(stream.layers, stream.values, strict=True):
        rows = logit.positions if layer is stream.layers[-1] else every_row
        below, parts = parts, propagation.attention(layer.block, values, parts, rows)
        parts = propagation.feedforward(layer, below[rows] if layer.block.parallel else parts, parts, rows)
    scores = propagation.read(logit, parts)  # [logit source]
    count = len(capture.tokens)
    tokens, rest = scores[:, :count], scores[:, count:].sum(1)
    figures = terms(logit, tokens, no_token=rest)
    require_sum(figures, capture)
    return Maps(
        logit.scores(tokens, len(target.positions)),
        figures=figures,
        assumed=(
            "attention weights, deviations of norms and gates of MLPs are those of this pass",
            "an activation is replaced by the line from the origin through its real value",
            *assumptions(logit, capture, target),
        ),
    )
