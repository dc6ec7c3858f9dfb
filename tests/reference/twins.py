"""Slow, literal twins of the formulas, written from the papers: loops and full tensors, nothing shared with the
library but the record of the pass."""

from collections.abc import Sequence

import torch
from torch import Tensor

from thalweg.capture.norm import Norm
from thalweg.capture.record import Block


def layer_norm_linear(norm: Norm, part: Tensor, point: Tensor) -> Tensor:
    """(1/σ(point)) · diag(γ)(I − 11ᵀ/d) · part, the matrix written out; without the centring for RMSNorm."""
    width = len(part)
    if norm.centred:
        matrix = torch.eye(width, dtype=part.dtype) - torch.full((width, width), 1 / width, dtype=part.dtype)
        spread = point - sum(point) / width
    else:
        matrix = torch.eye(width, dtype=part.dtype)
        spread = point
    if norm.weight is not None:
        matrix = torch.diag(norm.weight.to(part.dtype)) @ matrix
    sigma = (sum(spread**2) / width + norm.eps) ** 0.5
    return matrix @ part / sigma


def transformed_vectors(block: Block) -> tuple[Tensor, Tensor]:
    """(T [query column width], rest [query width]) with y_i = Σ_j T_ij + rest_i, in double precision.

    A self-attention block has its keys as columns; cross-attention one more, for the residual.
    """
    attention = block.attention
    weights, values = block.weights().double(), attention.values().double()
    projection = block.projection.double()
    heads, queries, keys = weights.shape
    width = projection.shape[-1]
    own_column = block.queries == block.keys
    parts = torch.zeros(queries, keys + (not own_column), width, dtype=torch.float64)
    rest = torch.zeros(queries, width, dtype=torch.float64)
    bias = torch.zeros(width, dtype=torch.float64) if block.bias is None else block.bias.double()
    for i in range(queries):
        rest[i] = bias
        for j in range(keys):
            for h in range(heads):
                parts[i, j] += weights[h, i, j] * (values[h, j] @ projection[h])
        vectors = [*parts[i, :keys], rest[i]]
        if block.branch_norm is not None:
            point = sum(vectors)
            assert isinstance(point, Tensor)
            vectors = [layer_norm_linear(block.branch_norm, vector, point) for vector in vectors]
            if block.branch_norm.bias is not None:
                vectors[-1] = vectors[-1] + block.branch_norm.bias.double()
        if block.scale is not None:
            vectors = [vector * block.scale.double() for vector in vectors]
        vectors = [vector * block.multiplier for vector in vectors]
        column = i if own_column else keys
        residual = block.input[i].double()
        point = sum(vectors) + residual
        row = [*vectors[:-1]] if own_column else [*vectors[:-1], torch.zeros(width, dtype=torch.float64)]
        row[column] = row[column] + residual
        last = vectors[-1]
        if block.norm is not None:
            row = [layer_norm_linear(block.norm, vector, point) for vector in row]
            last = layer_norm_linear(block.norm, last, point)
            if block.norm.bias is not None:
                last = last + block.norm.bias.double()
        parts[i] = torch.stack(row)
        rest[i] = last
    return parts, rest


def alti_contributions(block: Block, order: int = 1) -> Tensor:
    """c_ij = max(0, ‖y_i‖ − ‖y_i − T_ij‖) / Σ_k …, rows over the columns of `transformed_vectors`."""
    parts, rest = transformed_vectors(block)
    contributions = torch.zeros(parts.shape[:2], dtype=torch.float64)
    for i in range(len(parts)):
        whole = parts[i].sum(0) + rest[i]
        for j in range(parts.shape[1]):
            size = (whole.abs() ** order).sum() ** (1 / order)
            gap = ((whole - parts[i, j]).abs() ** order).sum() ** (1 / order)
            contributions[i, j] = max(0.0, float(size - gap))
        contributions[i] /= contributions[i].sum()
    return contributions


def attention_rollout(maps: Sequence[Tensor], residual: float) -> Tensor:
    """Path view of the product: the weight of a path is the product of its edges, summed over all paths."""
    count = len(maps[0])
    reached = torch.eye(count, dtype=torch.float64)
    for weights in maps:
        step = torch.zeros(count, count, dtype=torch.float64)
        for i in range(count):
            for k in range(count):
                edge = (1 - residual) * float(weights[i, k]) + residual * (i == k)
                for j in range(count):
                    step[i, j] += edge * reached[k, j]
        reached = step
    return reached


def mixing_ratio(block: Block) -> Tensor:
    """‖Σ_{j≠i} T_ij‖ / (‖Σ_{j≠i} T_ij‖ + ‖T_ii‖), Kobayashi 2021."""
    parts, _ = transformed_vectors(block)
    ratios = []
    for i in range(len(parts)):
        own = i if block.queries == block.keys else parts.shape[1] - 1
        others = parts[i].sum(0) - parts[i, own]
        ratios.append(others.norm() / (others.norm() + parts[i, own].norm()))
    return torch.stack(ratios)


def jacobian_norms(states: Tensor, sources: Sequence[Tensor], spectral: bool = False) -> Tensor:
    """‖∂e_i/∂x_j‖ [target source] of states [token width], by one backward pass for each of their numbers.

    The sources are [1 token width], as the model had them; those of several sequences stand in a row.
    """
    found = []
    for state in states:
        rows = [torch.autograd.grad(number, sources, retain_graph=True, materialize_grads=True) for number in state]
        whole = torch.stack([torch.cat([slope[0] for slope in row]) for row in rows])  # [result source width]
        blocks = [whole[:, j] for j in range(whole.shape[1])]
        found.append(torch.stack([torch.linalg.matrix_norm(block, 2 if spectral else "fro") for block in blocks]))
    return torch.stack(found)
