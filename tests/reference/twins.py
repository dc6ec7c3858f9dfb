"""Slow, literal twins of the formulas, written from the papers: loops and full tensors, nothing shared with the
library but the record of the pass."""

from collections.abc import Sequence
from itertools import combinations

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
        output = parts[i].sum(0) + rest[i]
        for j in range(parts.shape[1]):
            size = (output.abs() ** order).sum() ** (1 / order)
            gap = ((output - parts[i, j]).abs() ** order).sum() ** (1 / order)
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


def head_values(block: Block, head: int) -> Tensor:
    """T = V·W_O of one head, [key width], in double precision."""
    return block.attention.values()[head].double() @ block.projection[head].double()


def effective_attention(block: Block, head: int, row_sum: bool, cut: float) -> Tensor:
    """A·T·T⁺ (or A·[T, 1]·[T, 1]⁺) of each row over the keys that it sees, by a pseudo-inverse of T."""
    weights = block.weights()[head].double()
    values = head_values(block, head)
    values = values / torch.linalg.matrix_norm(values, 2)
    if row_sum and not block.attention.has_sinks:
        values = torch.cat([values, torch.full((len(values), 1), len(values) ** -0.5, dtype=torch.float64)], 1)
    effective = torch.zeros_like(weights)
    for i, seen in enumerate(block.attention.visible()):
        part = values[seen]
        left, sizes, right = torch.linalg.svd(part, full_matrices=False)
        kept = sizes > cut
        inverse = right[kept].T @ torch.diag(1 / sizes[kept]) @ left[:, kept].T
        effective[i, seen] = weights[i, seen] @ part @ inverse
    return effective


def left_null_dimension(matrix: Tensor, cut: float) -> int:
    """n − rank, by a full singular value decomposition."""
    return len(matrix) - int((torch.linalg.svdvals(matrix) > cut).sum())


def row_ambiguity(weights: Tensor, keys: Tensor, values: Tensor) -> int:
    """rank(J_a·K) − rank(Tᵀ·J_a·K) with J_a = diag(a) − a·aᵀ written out; T and K scaled to unit size."""
    jacobian = torch.diag(weights) - torch.outer(weights, weights)
    keys = keys / torch.linalg.matrix_norm(keys, 2)
    values = values / torch.linalg.matrix_norm(values, 2)
    reach = int(torch.linalg.matrix_rank(jacobian @ keys, rtol=1e-10))
    return reach - int(torch.linalg.matrix_rank(values.T @ jacobian @ keys, rtol=1e-10))


def vertices(weights: Tensor, columns: Tensor) -> Tensor:
    """All vertices of {x ≥ 0: columnsᵀ·x = columnsᵀ·weights}: every choice of as many keys as there are equations."""
    corners = []
    goal = columns.T @ weights
    for chosen in combinations(range(len(weights)), columns.shape[1]):
        square = columns[list(chosen)].T
        if torch.linalg.matrix_rank(square) < len(square):
            continue
        solved = torch.linalg.solve(square, goal)
        if bool((solved > -1e-9).all()):
            vertex = torch.zeros_like(weights)
            vertex[list(chosen)] = solved.clamp_min(0)
            corners.append(vertex)
    return torch.stack(corners)


def jacobian_norms(states: Tensor, sources: Sequence[Tensor], spectral: bool = False) -> Tensor:
    """‖∂e_i/∂x_j‖ [target source] of states [token width], by one backward pass for each of their components.

    The sources are [1 token width], as the model had them; those of several sequences are concatenated.
    """
    norms = []
    for state in states:
        rows = [torch.autograd.grad(number, sources, retain_graph=True, materialize_grads=True) for number in state]
        jacobian = torch.stack([torch.cat([slope[0] for slope in row]) for row in rows])  # [result source width]
        blocks = [jacobian[:, j] for j in range(jacobian.shape[1])]
        norms.append(torch.stack([torch.linalg.matrix_norm(block, 2 if spectral else "fro") for block in blocks]))
    return torch.stack(norms)
