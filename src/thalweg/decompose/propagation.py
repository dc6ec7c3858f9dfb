"""Vectors that say what each source token gave to a position, taken through a whole layer.

x_i = Σ_k x_{i⇐k} holds at every point: attention keeps its weights, norms their deviations, gates their values, and
an activation f is replaced by its slope from the origin at the point where it stood, so each step is linear and the
sum stays exact. Biases are spread over the sources with weights ∝ |b · x_{i⇐k}|, or put into a column of their own.
DecompX (Modarressi 2023), sections 3.1 to 3.3.
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
from thalweg.decompose.logits import Answer
from thalweg.decompose.parts import CHUNK_ELEMENTS
from thalweg.errors import InputError, ProofError
from thalweg.numerics import relative_error, working

Biases = Literal["absdot", "apart"]
Sources = Float[Tensor, "token source width"]  # with biases apart, the last source is no token


@dataclass(frozen=True)
class Propagation:
    """How biases are treated on the way."""

    biases: Biases

    def start(self, capture: Capture) -> Sources:
        """Below the first block every position is its own source."""
        given = capture.blocks[0].input
        count, width = given.shape
        parts = torch.zeros(
            count, count + (self.biases == "apart"), width, dtype=working(given.dtype), device=given.device
        )
        here = torch.arange(count, device=given.device)
        parts[here, here] = given.to(parts.dtype)
        return parts

    def through(self, pieces: Sequence[Piece], parts: Sources) -> Float[Tensor, "image source out"]:
        """Parts taken through pieces one by one, biases included."""
        for piece in pieces:
            parts = piece.linear(parts)
            if piece.bias is not None:
                parts = self._with_bias(parts, piece.bias.to(parts.dtype))
        return parts

    def _with_bias(self, parts: Sources, bias: Float[Tensor, " width"]) -> Sources:
        if self.biases == "apart":
            parts = parts.clone()
            parts[:, -1] += bias
            return parts
        return parts + _shares(parts @ bias)[..., None] * bias

    def attention(
        self, block: Block, values: LinearPath | Missing, parts: Sources, rows: list[int]
    ) -> Float[Tensor, "row source width"]:
        """The parts of a block's output at `rows`, from those of its input at all positions."""
        if isinstance(values, Missing):
            raise InputError(f"decompx takes vectors through attention, but {values.reason}")
        exact, attention = parts.dtype, block.attention
        given = self._checked(values, block.input, attention.value.transpose(0, 1).flatten(1), parts, block.name)
        given = given.unflatten(-1, attention.value.shape[::2])  # [token source kv_head value_size]
        group = attention.heads // attention.value.shape[0]
        weights, projection = block.weights()[:, rows].to(exact), block.projection.to(exact)
        mixed = torch.zeros(len(rows), *parts.shape[1:-1], projection.shape[-1], dtype=exact, device=parts.device)
        for head in range(attention.heads):
            brought = torch.einsum("ij,jsv->isv", weights[head], given[:, :, head // group])
            mixed += brought @ projection[head]
        point = torch.einsum("qhv,hvd->qd", attention.output[rows].to(exact), projection)
        if block.bias is not None:
            mixed = self._with_bias(mixed, block.bias.to(exact))
            point = point + block.bias.to(exact)
        if block.branch_norm is not None:
            mixed = self.through([NormAt(block.branch_norm, block.branch_norm.deviation(point))], mixed)
        if block.scale is not None:
            mixed = mixed * block.scale.to(exact)
        mixed = parts[rows] + block.multiplier * mixed
        return self._normed(block.norm, block.summed[rows].to(exact), mixed)

    def feedforward(self, layer: Feedforward, given: Sources, parts: Sources, rows: list[int]) -> Sources:
        """The parts of a layer's output at `rows`: what joins is made of `given`, and joins `parts`."""
        if isinstance(layer.branch_path, Missing):
            raise InputError(f"decompx takes vectors through every MLP, but {layer.branch_path.reason}")
        added = self._checked(layer.branch_path, layer.branch_input[rows], layer.branch[rows], given, layer.block.name)
        total = parts + layer.multiplier * added
        return self._normed(layer.norm, layer.summed[rows].to(parts.dtype), total)

    def read(self, answer: Answer, parts: Sources) -> Float[Tensor, "answer source"]:
        """Each source's part of each answer, from the parts of the last hidden states at the rows that count.

        The last linear map is not taken for a whole vocabulary: a part of a logit is a product with one vector, and
        so is the weight of the map's bias.
        """
        states = parts.new_zeros(len(answer.rows), *parts.shape[1:])
        states[answer.live] = parts
        pieces, slope = list(answer.pieces), answer.choice
        while pieces and pieces[-1].bias is None:
            slope = pieces.pop().transposed(slope)
        head = pieces.pop() if pieces and isinstance(pieces[-1], Affine) else None
        states = self.through(pieces, states)
        if head is None or head.bias is None:
            found = torch.einsum("rsd,rd->rs", states, slope)
        else:
            bias = head.bias.to(slope.dtype)
            found = torch.einsum("rsd,rd->rs", states, head.transposed(slope))
            added = slope @ bias  # [row]
            if self.biases == "apart":
                found[:, -1] += added
            else:
                found += _shares(states @ head.transposed(bias[None])[0]) * added[:, None]
        return found.sum(0, keepdim=True) if answer.pooled else found

    def _normed(self, norm: Norm | None, point: Tensor, parts: Sources) -> Sources:
        return parts if norm is None else self.through([NormAt(norm, norm.deviation(point))], parts)

    def _checked(
        self, path: LinearPath, start: Tensor, end: Tensor, parts: Sources, name: str
    ) -> Float[Tensor, "token source out"]:
        """Parts taken along a path, few rows at a time; the path itself must lead to what really flowed."""
        step = max(1, CHUNK_ELEMENTS // (4 * parts.shape[1] * parts.shape[2]))
        arrived, made = [], []
        for first in range(0, len(parts), step):
            chunk = slice(first, first + step)
            pieces, reached = path.at(start[chunk].to(parts.dtype))
            arrived.append(reached)
            made.append(self.through(pieces, parts[chunk]))
        error, allowed = relative_error(torch.cat(arrived), end), allowed_error(end.dtype, 4 * start.shape[1])
        if not error <= allowed:
            raise ProofError(
                f"what was found in the layer of {name!r} leads to something {error:.1e} away from what flowed, where "
                f"{allowed:.1e} is allowed"
            )
        return torch.cat(made)


def _shares(products: Float[Tensor, "token source"]) -> Float[Tensor, "token source"]:
    """Weights ∝ |products|, each row summing to one."""
    sizes = products.abs()
    return sizes / sizes.sum(-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
