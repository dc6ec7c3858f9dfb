"""Propagation of one vector per source token and position through whole layers.

x_i = Σ_k x_{i⇐k} holds at every point: attention keeps its weights, norms their deviations, gates their values, and
an activation f is replaced by its slope from the origin f(z)/z at its real input, so each step is linear and the sum
stays exact. Biases are spread over the sources with weights ∝ |b · x_{i⇐k}|, or kept in a column of their own.
Attention has a single bias, those of its values and of its output merged: b_Att = W_O b_V + b_O.
DecompX (Modarressi 2023), sections 3.1 to 3.3 and equations 3 to 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.capture.linear import Affine
from thalweg.capture.missing import Missing
from thalweg.capture.norm import Norm
from thalweg.capture.prove.linear_path import LinearPath, NormAt, Piece, allowed_error
from thalweg.capture.prove.mlp import Feedforward
from thalweg.capture.record import Block, Capture
from thalweg.decompose.logits import ExplainedLogit
from thalweg.decompose.parts import CHUNK_ELEMENTS
from thalweg.errors import InputError, ProofError
from thalweg.numerics import relative_error, working

Biases = Literal["absdot", "apart"]
Sources = Float[Tensor, "token source width"]  # with biases apart, the last source is the bias term


@dataclass(frozen=True)
class Propagation:
    """Linear steps on vectors of sources, with one treatment of biases."""

    biases: Biases

    def start(self, capture: Capture) -> Sources:
        """Below the first block every position is its own source."""
        states = capture.blocks[0].input
        count, width = states.shape
        parts = torch.zeros(
            count, count + (self.biases == "apart"), width, dtype=working(states.dtype), device=states.device
        )
        diagonal = torch.arange(count, device=states.device)
        parts[diagonal, diagonal] = states.to(parts.dtype)
        return parts

    def through(self, pieces: Sequence[Piece], parts: Sources) -> Float[Tensor, "image source out"]:
        """Apply pieces one by one, biases included."""
        for piece in pieces:
            parts = piece.linear(parts)
            if piece.bias is not None:
                parts = self._with_bias(parts, piece.bias.to(parts.dtype))
        return parts

    def _with_bias(self, parts: Sources, bias: Float[Tensor, "*token width"]) -> Sources:
        if self.biases == "apart":
            parts = parts.clone()
            parts[:, -1] += bias
            return parts
        products = (parts @ bias[..., None]).squeeze(-1)  # [token source]
        return parts + _shares(products)[..., None] * bias.unsqueeze(-2)

    def attention(
        self, block: Block, values: LinearPath | Missing, parts: Sources, rows: list[int]
    ) -> Float[Tensor, "row source width"]:
        """The parts of a block's output at `rows`, from those of its input at all positions."""
        if isinstance(values, Missing):
            raise InputError(f"vectors cannot be propagated through attention: {values.reason}")
        exact, attention = parts.dtype, block.attention
        kernel_values = attention.value.transpose(0, 1).flatten(1)
        vectors = self._checked(values, block.input, kernel_values, parts, block.name, hold_last_bias=True)
        vectors = vectors.unflatten(-1, attention.value.shape[::2])  # [token source kv_head value_size]
        group = attention.heads // attention.value.shape[0]
        weights, projection = block.weights()[:, rows].to(exact), block.projection.to(exact)
        mixed = torch.zeros(len(rows), *parts.shape[1:-1], projection.shape[-1], dtype=exact, device=parts.device)
        for head in range(attention.heads):
            attended = torch.einsum("ij,jsv->isv", weights[head], vectors[:, :, head // group])
            mixed += attended @ projection[head]
        point = torch.einsum("qhv,hvd->qd", attention.output[rows].to(exact), projection)
        last = values.steps[-1]
        held = last.bias if isinstance(last, Affine) else None
        if held is not None:  # b_Att; a row of attention with a sink sums to less than one
            by_head = held.to(exact).unflatten(-1, attention.value.shape[::2]).repeat_interleave(group, 0)
            held = torch.einsum("hq,hv,hvd->qd", weights.sum(-1), by_head, projection)
        if block.bias is not None:
            point = point + block.bias.to(exact)
            held = block.bias.to(exact) if held is None else held + block.bias.to(exact)
        if held is not None:
            mixed = self._with_bias(mixed, held)
        if block.branch_norm is not None:
            mixed = self.through([NormAt(block.branch_norm, block.branch_norm.deviation(point))], mixed)
        if block.scale is not None:
            mixed = mixed * block.scale.to(exact)
        mixed = parts[rows] + block.multiplier * mixed
        return self._normed(block.norm, block.summed[rows].to(exact), mixed)

    def feedforward(self, layer: Feedforward, inputs: Sources, parts: Sources, rows: list[int]) -> Sources:
        """The parts of a layer's output at `rows`: the MLP of `inputs`, added to `parts`."""
        if isinstance(layer.branch_path, Missing):
            raise InputError(f"vectors cannot be propagated through every MLP: {layer.branch_path.reason}")
        added = self._checked(layer.branch_path, layer.branch_input[rows], layer.branch[rows], inputs, layer.block.name)
        total = parts + layer.multiplier * added
        return self._normed(layer.norm, layer.summed[rows].to(parts.dtype), total)

    def read(self, logit: ExplainedLogit, parts: Sources) -> Float[Tensor, "logit source"]:
        """Each source's part of each logit, from the parts of the last hidden states at the live rows.

        The last linear map is not applied for a whole vocabulary: a part of a logit is a product with one vector, and
        so is the weight of the map's bias.
        """
        states = parts.new_zeros(len(logit.rows), *parts.shape[1:])
        states[logit.live] = parts
        pieces, slope = list(logit.pieces), logit.choice
        while pieces and pieces[-1].bias is None:
            slope = pieces.pop().transposed(slope)
        head = pieces.pop() if pieces and isinstance(pieces[-1], Affine) else None
        states = self.through(pieces, states)
        if head is None or head.bias is None:
            scores = torch.einsum("rsd,rd->rs", states, slope)
        else:
            bias = head.bias.to(slope.dtype)
            scores = torch.einsum("rsd,rd->rs", states, head.transposed(slope))
            added = slope @ bias  # [row]
            if self.biases == "apart":
                scores[:, -1] += added
            else:
                scores += _shares(states @ head.transposed(bias[None])[0]) * added[:, None]
        return scores.sum(0, keepdim=True) if logit.pooled else scores

    def _normed(self, norm: Norm | None, point: Tensor, parts: Sources) -> Sources:
        return parts if norm is None else self.through([NormAt(norm, norm.deviation(point))], parts)

    def _checked(
        self, path: LinearPath, start: Tensor, end: Tensor, parts: Sources, name: str, hold_last_bias: bool = False
    ) -> Float[Tensor, "token source out"]:
        """Propagate parts along a path, a few rows at a time; the path itself must lead to the model's real values.

        With `hold_last_bias` the bias of a last affine map is left to the caller.
        """
        step = max(1, CHUNK_ELEMENTS // (4 * parts.shape[1] * parts.shape[2]))
        ends, propagated = [], []
        for first in range(0, len(parts), step):
            chunk = slice(first, first + step)
            pieces, reached = path.at(start[chunk].to(parts.dtype))
            ends.append(reached)
            if hold_last_bias and isinstance(pieces[-1], Affine):
                pieces[-1] = Affine(pieces[-1].weight, None)
            propagated.append(self.through(pieces, parts[chunk]))
        error, allowed = relative_error(torch.cat(ends), end), allowed_error(end.dtype, 4 * start.shape[1])
        if not error <= allowed:
            raise ProofError(
                f"the wiring of the layer of {name!r} leads to values {error:.1e} away from the model's own, where "
                f"{allowed:.1e} is allowed"
            )
        return torch.cat(propagated)


def _shares(products: Float[Tensor, "token source"]) -> Float[Tensor, "token source"]:
    """Weights ∝ |products|, each row summing to one."""
    sizes = products.abs()
    return sizes / sizes.sum(-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
