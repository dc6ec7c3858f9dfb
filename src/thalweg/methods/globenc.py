"""GlobEnc: norms of the parts of each encoder layer, multiplied through the layers."""

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
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method
from thalweg.numerics import working


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "layer to explain, from 0; negative numbers count from the top")
    normalise_layers: bool = option(False, "divide rows of each layer by their sum before multiplying")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="steps", chain="product", serves=frozenset({"single sequence"})),
    paper="Modarressi et al. 2022, section 3",
    cost="n²·d per layer, as ALTI; one extra pass for post-norm models",
    guarantee="rows sum to one",
)
def globenc(capture: Capture, target: Target, params: Params) -> Maps:
    """Norm of each token's contribution to a whole encoder layer, both norms included, multiplied through the layers.

    N_ij = ‖L₂ T_i(x_j) / σ₂‖₂ where T_i(x_j) are the parts of the attention block's output, L₂ and σ₂ the linear
    part and the deviation of the norm at the layer's end (N_Enc): the MLP enters through σ₂ only. R = N_L … N_1,
    without an added identity and without normalising layers; the rows of R are normalised at the end. Pre-norm models
    get the norms of the parts with the residual alone (N_Res), since the paper finds that the two norms help together
    or not at all; their rows are normalised in each layer, because nothing else makes positions comparable. Limits: no
    sign and no class (use `decompx`); encoder-decoders are not supported, since rows of encoder and decoder have no
    common scale.
    """
    blocks = capture.upto(params.layer)
    layers: tuple[Feedforward | None, ...] = (None,) * len(blocks)
    if any(block.norm is not None for block in blocks):
        layers = residual_stream(capture).layers
    steps = [_norms(block, layer).double() for block, layer in zip(blocks, layers, strict=False)]
    post_norm = any(layer is not None for layer in layers)
    if params.normalise_layers or not post_norm:
        steps = [normalised(step) for step in steps]
    # a common factor of a layer changes no share, and keeps products of many layers in range
    scores = rollout([step / step.mean() for step in steps], target.positions)
    with_norm = "MLPs enter only through the deviation of the norm after them"
    without_norm = "the model is pre-norm: MLPs are left out, and rows of each layer are normalised (N_Res)"
    return Maps(normalised(scores), torch.stack(steps), assumed=(with_norm if post_norm else without_norm,))


def _norms(block: Block, layer: Feedforward | None) -> TokenMap:
    if layer is None or layer.norm is None:
        return norms(decompose(block, "residual"))[0]
    parts = decompose(block)
    deviation = layer.norm.deviation(layer.summed.to(working(layer.summed.dtype)))
    after_norm = replace(
        parts,
        vectors=layer.norm.linear(parts.vectors),
        factor=parts.factor / deviation,
        own=layer.norm.linear(parts.own) / deviation,
    )
    return norms(after_norm)[0]
