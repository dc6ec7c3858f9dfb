"""Hidden token attribution: norms of the derivatives of hidden states with respect to the inputs."""

from dataclasses import dataclass

from thalweg.capture.record import Capture
from thalweg.capture.target import Start, Target
from thalweg.decompose.jacobians import NormKind, jacobians
from thalweg.decompose.sketch import GROUP_SIZE
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")
    start: Start = option("embeddings", "differentiate with respect to the embedding output, or to the layer before")
    norm: NormKind = option("frobenius", "norm of a Jacobian block; the spectral norm requires rtol=none")
    rtol: float | None = option(0.05, "relative error of the sketch in every share; none: exact, from all directions")
    seed: int = option(0, "seed of the random directions")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="cumulative", cost="high", max_tokens=32, max_tokens_all_targets=32),
    paper="Brunner et al. 2020, section 5",
    cost="one pass per token (or target) and direction, with 6 to d directions",
    guarantee="derivative of the real model, each share within rtol at 95 % confidence; rows sum to one",
    memory=lambda capture: _numbers_per_map(capture) * len(capture.blocks) * len(capture.tokens) ** 2,
)
def hidden_token_attribution(capture: Capture, target: Target, params: Params) -> Maps:
    """Norm of the derivative of a hidden state with respect to each token's embedding.

    c_ij = ‖∂e_i/∂x_j‖ / Σ_k ‖∂e_i/∂x_k‖ with the Frobenius norm (or the spectral one), e the state after a layer, MLP
    included, and x the output of the embeddings, position included, or with start="layer" the states of the layer
    before. Shares below a tenth of 1/n are accurate to rtol of that tenth. The maps of all layers are computed if
    all positions are the target. Limits: it is local, the effect of a small change of x_j and not the contribution
    of x_j, and it has no sign.
    """
    all_positions = target.positions == tuple(range(len(capture.tokens)))
    blocks = jacobians(
        capture,
        start=params.start,
        layer=params.layer,
        rows=None if all_positions else target.positions,
        norm=params.norm,
        rtol=params.rtol,
        seed=params.seed,
    )
    shares, empty_rows = blocks.shares(target.positions)
    figures = {
        "directions per token": blocks.mean_directions,
        "most directions of a token": float(blocks.most_directions),
    }
    if empty_rows:
        figures["rows without any derivative"] = float(empty_rows)
    errors = None
    if params.rtol is not None:
        figures["largest relative error bar"] = float(blocks.errors.max())
        errors = blocks.absolute(shares)[-1]
    layers = shares[1:] if all_positions else None
    return Maps(shares[-1], layers, figures=figures, assumed=blocks.assumed, errors=errors)


def _numbers_per_map(capture: Capture) -> int:
    """Numbers per entry of a map: norms, shares and errors, and the products of each group of directions."""
    return 8 + capture.width // GROUP_SIZE
