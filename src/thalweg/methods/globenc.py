"""GlobEnc: the sizes of the parts of each encoder layer, multiplied through the layers."""

from dataclasses import dataclass, replace

import torch

from thalweg.aggregate.rollout import rollout
from thalweg.axes import TokenMap
from thalweg.capture.prove.mlp import Feedforward, residual_stream
from thalweg.capture.record import Block, Capture
from thalweg.capture.target import Target
from thalweg.decompose.contributions import norms
from thalweg.decompose.parts import decompose
from thalweg.decompose.rows import normalised
from thalweg.errors import InputError
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.numerics import working


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "layer to explain, from 0; negative numbers count from the top")
    normalise_layers: bool = option(False, "rows of each layer divided by their sum before they are multiplied")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product", serves=frozenset({"single sequence"})),
    paper="Modarressi et al. 2022, section 3",
    cost="one more pass where norms follow the sums, and ALTI's norms: n²·d per layer",
    guarantee="rows sum to one",
)
def globenc(capture: Capture, target: Target, params: Params) -> Maps:
    """How large a vector each token brings through a whole encoder layer, both norms included, over all layers.

    N_ij = ‖L₂ T_i(x_j) / σ₂‖₂ where T_i(x_j) are the parts of the attention block's output, L₂ and σ₂ the linear
    part and the deviation of the norm at the layer's end (N_Enc): the MLP counts in σ₂ only. R = N_L … N_1, without
    an added identity and without normalising layers; the rows of R are normalised at the end. A model without norms
    after its sums (pre-norm) gets the sizes of the parts with the residual alone (N_Res), since the paper finds that
    norms help both or not at all; their rows are normalised in each layer, because nothing else holds the sizes of
    different positions together. No sign, no class: use `decompx` for those. Encoder-decoders are refused.
    """
    if any(block.role != "self" for block in capture.blocks):
        raise InputError("globenc is for one sequence: rows of an encoder and of a decoder have no common scale")
    blocks = capture.upto(params.layer)
    layers: tuple[Feedforward | None, ...] = (None,) * len(blocks)
    if any(block.norm is not None for block in blocks):
        layers = residual_stream(capture).layers
    steps = [_sizes(block, layer).double() for block, layer in zip(blocks, layers, strict=False)]
    post_norm = any(layer is not None for layer in layers)
    if params.normalise_layers or not post_norm:
        steps = [normalised(step) for step in steps]
    # one factor for a whole layer changes no share, and keeps products of many layers in range
    scores = rollout([step / step.mean() for step in steps], target.positions)
    kept = "MLPs count in the deviation of the norm after them only"
    left_out = "no norm follows the sums: MLPs are left out, rows of each layer are normalised (N_Res)"
    return Maps(normalised(scores), torch.stack(steps), assumed=(kept if post_norm else left_out,))


def _sizes(block: Block, layer: Feedforward | None) -> TokenMap:
    if layer is None or layer.norm is None:
        return norms(decompose(block, "residual"))
    parts = decompose(block)
    deviation = layer.norm.deviation(layer.summed.to(working(layer.summed.dtype)))
    return norms(
        replace(
            parts,
            vectors=layer.norm.linear(parts.vectors),
            factor=parts.factor / deviation,
            own=layer.norm.linear(parts.own) / deviation,
        )
    )
