"""Effective attention: the weights of one layer without what has no effect on its output."""

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
        "none", "none as in the paper, or row_sum: take away only what leaves the rows summing to one"
    )


@method(
    params=Params,
    traits=Traits(signed=True, cost="low"),
    paper="Brunner et al. 2020, section 3",
    cost="the weights of one layer; a small decomposition of each head's values",
    guarantee="gives the same head output as attention itself",
)
def effective_attention(capture: Capture, target: Target, params: Params) -> Maps:
    """What is left of one layer's attention when the part that no output depends on is taken away.

    A − Proj(A) for each head, Proj onto the left null space of T = V·W_O (row_sum: of [T, 1]), row by row and over
    the keys that a row sees; the mean of the heads or one head. Equal to A·T·T⁺. Where a row sees no more keys than
    the values have dimensions nothing is taken away. Entries may be negative and rows need not sum to one: they are
    not renormalised. See `thalweg trust` for how much was taken away.
    """
    block = capture.block(params.layer)
    change = effective_weights(block, params.constraint == "row_sum")
    weights, parity = block_weights(block, params.head, change)
    sums = params.constraint == "row_sum" and not block.attention.has_sinks
    said = ("entries may be negative" + ("" if sums else ", rows need not sum to one"),)
    return raw_attention.one_block(capture, target, block, weights, parity, said)
