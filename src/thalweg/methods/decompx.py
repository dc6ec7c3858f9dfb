"""DecompX: what each token gave to a logit, followed as vectors through every component."""

from dataclasses import dataclass
from typing import Literal

from thalweg.capture.prove.mlp import residual_stream
from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.logits import answer, assumptions, require_sum, terms
from thalweg.decompose.propagation import Propagation
from thalweg.methods.params import LogitParams, option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params(LogitParams):
    biases: Literal["absdot", "apart"] = option(
        "absdot", "biases go to the tokens, by |bias · token's vector|, or stay apart as a figure of their own"
    )


@method(
    params=Params,
    traits=Traits(signed=True, explains_logit=True, cost="high", max_tokens=256, serves=frozenset({"single sequence"})),
    paper="Modarressi et al. 2023, section 3",
    cost="every pair of tokens has a vector that passes every MLP: about n/2 forward passes, n²·d numbers held",
    guarantee="scores add up to the logit, with the figure for no token if biases stay apart",
)
def decompx(capture: Capture, target: Target, params: Params) -> Maps:
    """How much each token adds to a class or a next token, with its sign, through MLPs and the head as well.

    y_c = Σ_k y_{c⇐k}: every position starts as its own vector x_{i⇐i}; attention with its weights, norms with their
    deviations, MLPs with their activations' slopes from the origin f(z)/z, residuals and the head are linear where
    they stood, so the vectors x_{i⇐k} always add up to what flowed. A gated MLP f(g) ⊙ u is linear in u, its gate
    kept. Memory holds [n, n, d] numbers, several times over: 200 MB each at 256 tokens and d = 768, so not for long
    texts; experts (MoE) and encoder-decoders are refused.
    """
    upper = residual_stream(capture)
    found = answer(capture, upper, target, params.output, params.foil)
    way = Propagation(params.biases)
    everywhere = list(range(len(capture.tokens)))
    parts = way.start(capture)
    for layer, values in zip(upper.layers, upper.values, strict=True):
        rows = found.positions if layer is upper.layers[-1] else everywhere
        given, parts = parts, way.attention(layer.block, values, parts, rows)
        parts = way.feedforward(layer, given[rows] if layer.block.parallel else parts, parts, rows)
    scores = way.read(found, parts)  # [answer source]
    count = len(capture.tokens)
    tokens, rest = scores[:, :count], scores[:, count:].sum(1)
    figures = terms(found, tokens, no_token=rest)
    require_sum(figures, capture)
    return Maps(
        found.scores(tokens, len(target.positions)),
        figures=figures,
        assumed=(
            "attention weights, deviations of norms and gates of MLPs are taken as they were",
            "an activation is the line from the origin through where it stood",
            *assumptions(found, capture, target),
        ),
    )
