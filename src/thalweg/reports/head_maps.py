"""The certificate of all heads, and small attention maps taken while it is computed."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.axes import HeadMaps
from thalweg.capture.record import Block, Capture
from thalweg.drawing.packed import pack
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.result import Certificate
from thalweg.reports.result import HeadMap

MAX_CERTIFIED_TOKENS = 512
MAX_CELLS = 2_000_000  # of all maps together
MIN_SIDE = 16  # cells of a map


def certificate_and_maps(capture: Capture) -> tuple[Certificate | None, tuple[HeadMap, ...]]:
    """The certificate, or None for a long text, and the map of every head, downsampled to `MAX_CELLS`."""
    heads = sum(block.attention.heads for block in capture.blocks)
    side = max(MIN_SIDE, int((MAX_CELLS / heads) ** 0.5))
    cell = -(-len(capture.tokens) // side)
    rows: dict[int, list[tuple[Tensor, ...]]] = {}

    def keep(layer: int, *maps: HeadMaps) -> None:
        rows.setdefault(layer, []).append(tuple(downsample(head_map.cpu(), cell) for head_map in maps))

    certificate = None
    if len(capture.tokens) <= MAX_CERTIFIED_TOKENS:
        certificate = certify(capture, watch=lambda layer, weights, used: keep(layer, weights, weights - used))
    else:
        for layer, block in enumerate(capture.blocks):
            for _, weights, _ in block.rows():
                keep(layer, weights)
    return certificate, tuple(_head_map(layer, capture.blocks[layer], cell, pieces) for layer, pieces in rows.items())


def _head_map(layer: int, block: Block, cell: int, pieces: list[tuple[Tensor, ...]]) -> HeadMap:
    maps = [downsample(torch.cat(rows, 1).mT, cell).mT for rows in zip(*pieces, strict=True)]  # [head query key]
    weights, *null = (pack(head_map.flatten(0, 1).double().numpy()) for head_map in maps)
    return HeadMap(
        layer=layer,
        heads=block.attention.heads,
        first_query=block.queries.start,
        first_key=block.keys.start,
        cell=cell,
        weights=weights,
        null=null[0] if null else None,
    )


def downsample(maps: Float[Tensor, "head row column"], cell: int) -> Float[Tensor, "head row cell"]:
    """Keep the entry with the largest magnitude of every `cell` columns."""
    if cell == 1:
        return maps
    maps = F.pad(maps, (0, -maps.shape[-1] % cell)).unflatten(-1, (-1, cell))
    return maps.gather(-1, maps.abs().argmax(-1, keepdim=True))[..., 0]
