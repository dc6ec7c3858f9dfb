"""Hidden token attribution: how strongly each hidden state moves with each input."""

from dataclasses import dataclass

from thalweg.capture.record import Capture
from thalweg.capture.target import Start, Target
from thalweg.decompose.jacobians import NormKind, jacobians
from thalweg.methods.params import option
from thalweg.methods.registry import Maps, Traits, method


@dataclass(frozen=True)
class Params:
    layer: int = option(-1, "attention block to explain, from 0; negative numbers count from the top")
    start: Start = option("embeddings", "differentiate by the embedding output, or by the layer before")
    norm: NormKind = option("frobenius", "norm of a Jacobian block; the spectral norm needs rtol=none")
    rtol: float | None = option(0.05, "relative error of the sketch in every share; none: exact, all directions")
    seed: int = option(0, "which random directions are drawn")


@method(
    params=Params,
    traits=Traits(rows_sum_to_one=True, layer_maps="cumulative", cost="high", max_tokens=32, max_tokens_all_targets=32),
    paper="Brunner et al. 2020, section 5",
    cost="a pass per token and direction, from 6 to d of them; for some rows, per row and direction",
    guarantee="rows sum to one; the derivative of the real model, each share within rtol at 95 % confidence",
)
def hidden_token_attribution(capture: Capture, target: Target, params: Params) -> Maps:
    """How strongly a token's state after a layer, MLP included, moves with each token's embedding.

    c_ij = ‖∂e_i/∂x_j‖ / Σ_k ‖∂e_i/∂x_k‖ with the Frobenius norm (or the spectral one), x the output of the embeddings,
    position included, or with start="layer" the states of the layer before. It is local: it says what a small change
    of x_j would do, not what x_j brought, and it has no sign. Shares below a tenth of 1/n are kept to rtol of that
    tenth. The map of every layer is there when all positions are the target.
    """
    everything = target.positions == tuple(range(len(capture.tokens)))
    found = jacobians(
        capture,
        start=params.start,
        layer=params.layer,
        rows=None if everything else target.positions,
        norm=params.norm,
        rtol=params.rtol,
        seed=params.seed,
    )
    shares = found.norms / found.norms.sum(-1, keepdim=True)
    figures = {
        "directions per token": found.mean_directions,
        "most directions of a token": float(found.most_directions),
    }
    errors = None
    if params.rtol is not None:
        figures["largest relative error bar"] = float(found.errors.max())
        errors = found.absolute()[-1]
    layers = shares[1:] if everything else None
    return Maps(shares[-1], layers, figures=figures, assumed=found.said, errors=errors)
