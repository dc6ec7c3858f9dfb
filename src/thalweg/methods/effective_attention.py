"""Effective attention: the weights of one layer without their null-space component."""

from dataclasses import dataclass
from typing import Literal

from thalweg.capture.record import Capture
from thalweg.capture.target import Target
from thalweg.decompose.attention_graph import block_weights, effective_weights
from thalweg.methods import raw_attention
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params(raw_attention.Params):
    constraint: Literal["none", "row_sum"] = option(
        "none", "none as in the paper, or row_sum: remove only directions that preserve row sums"
    )


@method(
    params=Params,
    traits=Traits(signed=True, cost="low"),
    paper="Brunner et al. 2020, section 3",
    cost="attention weights of one layer and a small decomposition of each head's values",
    guarantee="same head output as attention itself",
)
def effective_attention(capture: Capture, target: Target, params: Params) -> Maps:
    """Attention weights of one layer without the component that has no effect on its output.

    A − Proj(A) = A·T·T⁺ for each head, Proj onto the left null space of T = V·W_O (row_sum: of [T, 1]), row by row and
    over the keys that a row sees; the mean of the heads or one head. Rows that see no more keys than the rank of T stay
    as they are. Limits: entries may be negative, and rows need not sum to one; they are not renormalised. `thalweg
    trust` shows how much was removed.
    """
    block = capture.block(params.layer)
    reweight = effective_weights(block, params.constraint == "row_sum")
    weights, parity = block_weights(block, params.head, reweight)
    sums = params.constraint == "row_sum" and not block.attention.has_sinks
    assumed = ("entries may be negative" + ("" if sums else ", rows need not sum to one"),)
    return raw_attention.block_maps(capture, target, block, weights, parity, assumed)
