"""Hand-made blocks: values, projections, and weights or queries and keys."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from thalweg.capture.record import Attention, Block, Capture
from thalweg.numerics import tolerance
from thalweg.tokens import anonymous

LONG = (
    "a gorgeous, witty, seductive movie that never quite manages to make its characters as interesting as the places "
    "in which they are shown, alas, but still."
)


def head_block(
    values: Tensor,
    projection: Tensor | None = None,
    weights: Tensor | None = None,
    query: Tensor | None = None,
    key: Tensor | None = None,
    **options: Any,
) -> Block:
    """One block whose heads have these values [head key value_size]; attention is random by default."""
    heads, keys, size = values.shape
    if weights is None and query is None:
        query = key = torch.randn(heads, keys, size, dtype=values.dtype, generator=generator(1))
    if projection is None:
        projection = torch.randn(heads, size, heads * size, dtype=values.dtype, generator=generator(2))
    queries = (weights if weights is not None else query).shape[1]  # pyright: ignore[reportOptionalMemberAccess]
    empty = torch.zeros(queries, heads, size, dtype=values.dtype)
    attention = Attention(value=values, output=empty, query=query, key=key, kept=weights, **options)
    output = (attention.weights() @ attention.values()).transpose(0, 1).contiguous().to(values.dtype)
    attention = replace(attention, output=output)
    hidden = torch.zeros(queries, projection.shape[-1], dtype=values.dtype)
    place = slice(0, queries)
    return Block(
        name="attention",
        role="self",
        attention=attention,
        projection=projection,
        bias=None,
        branch_norm=None,
        scale=None,
        multiplier=1.0,
        input=hidden,
        summed=hidden,
        output=hidden,
        norm=None,
        parallel=False,
        queries=place,
        keys=slice(0, keys),
        parity=0.0,
        sum_error=0.0,
        tolerance=tolerance(values.dtype, keys),
    )


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_values(heads: int, keys: int, size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Values with a bias, as real ones have."""
    bias = torch.randn(heads, 1, size, generator=generator(seed + 100), dtype=torch.float64)
    return (torch.randn(heads, keys, size, generator=generator(seed), dtype=torch.float64) + bias).to(dtype)


def random_head(keys: int, key_size: int, value_size: int, seed: int = 0, **options: Any) -> Block:
    query, key = (torch.randn(1, keys, key_size, dtype=torch.float64, generator=generator(seed + s)) for s in (20, 21))
    values = random_values(1, keys, value_size, seed)
    return head_block(values, query=query, key=key, scaling=key_size**-0.5, **options)


def block_capture(block: Block) -> Capture:
    """One hand-made block as a capture."""
    return Capture(anonymous(block.keys.stop), (block,), None, (), (), (), {}, lambda: None)  # pyright: ignore[reportArgumentType]
