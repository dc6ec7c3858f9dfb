"""Nearest-neighbour search: which candidate a recovered state is closest to, and whether it is a correct one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

Part = Literal["whole", "angle", "norm"]
Metric = Literal["cosine", "l2"]
ROUNDING_UNITS = 32  # units in the last place by which equal similarities may differ


def take(part: Part, states: Float[Tensor, "*token width"]) -> Float[Tensor, "*token taken"]:
    """Restrict states to a part: all of h, its direction h/‖h‖, or its length ‖h‖."""
    if part == "whole":
        return states
    length = states.norm(dim=-1, keepdim=True)
    return length if part == "norm" else states / length.clamp_min(torch.finfo(states.dtype).tiny)


def similarity(
    metric: Metric,
    estimates: Float[Tensor, "*group query width"],
    candidates: Float[Tensor, "*group candidate width"],
) -> tuple[Float[Tensor, "*group query candidate"], Float[Tensor, "*group query one"]]:
    """The similarity of every estimate to every candidate (larger is nearer), and how much of it may be rounding.

    cosine: ⟨g, c⟩ / ‖g‖‖c‖. l2: 2⟨g, c⟩ − ‖c‖², which is −‖g − c‖² up to a term that all candidates share; for
    scalars −|g − c|, because squaring would lose half of the digits.
    """
    rounding = ROUNDING_UNITS * torch.finfo(estimates.dtype).eps
    if metric == "l2" and estimates.shape[-1] == 1:
        return -(estimates - candidates.mT).abs(), rounding * estimates.abs()
    if metric == "cosine":
        estimates, candidates = take("angle", estimates), take("angle", candidates)
    near = estimates @ candidates.mT  # [… query candidate]
    size = candidates.square().sum(-1)[..., None, :]  # [… 1 candidate]
    if metric == "l2":
        near = 2 * near - size
    largest = size.amax(-1, keepdim=True)
    scale = 2 * estimates.norm(dim=-1, keepdim=True) * largest.sqrt() + largest  # [… query 1]
    return near, rounding * scale


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest candidates of each query: their similarity, how many tie, how many of those are correct, the first.

    Ties count fractionally: if k candidates are equally near and r of them are correct, the hit counts r/k.
    """

    near: Float[Tensor, "*query"]
    ties: Float[Tensor, "*query"]
    right: Float[Tensor, "*query"]
    first: Shaped[Tensor, "*query"]

    @staticmethod
    def of(
        near: Float[Tensor, "*query candidate"],
        slack: Float[Tensor, "*query one"],
        right: Bool[Tensor, "*#query candidate"],
        start: int = 0,
    ) -> "Nearest":
        """Search among candidates numbered from `start`; similarities within `slack` of the best one tie."""
        best, first = near.max(-1, keepdim=True)
        tied = near >= best - slack
        return Nearest(
            best[..., 0],
            tied.sum(-1).to(near.dtype),
            (tied & right).sum(-1).to(near.dtype),
            first[..., 0] + start,
        )

    def merged(self, other: "Nearest", slack: Float[Tensor, "*query one"]) -> "Nearest":
        """The nearest among the candidates of both searches."""
        mine = (self.near >= other.near - slack[..., 0]).to(self.near.dtype)
        theirs = (other.near >= self.near - slack[..., 0]).to(self.near.dtype)
        return Nearest(
            torch.maximum(self.near, other.near),
            mine * self.ties + theirs * other.ties,
            mine * self.right + theirs * other.right,
            torch.where(mine > 0, self.first, other.first),
        )

    @staticmethod
    def joined(searches: "Sequence[Nearest]") -> "Nearest":
        """Concatenate the queries of several searches."""
        return Nearest(*(torch.cat([getattr(search, part.name) for search in searches]) for part in fields(Nearest)))

    def at(self, *index: Tensor | int) -> "Nearest":
        """Select queries by indices of the leading axes."""
        return Nearest(*(getattr(self, part.name)[index] for part in fields(Nearest)))

    @property
    def hits(self) -> Float[Tensor, "*query"]:
        return self.right / self.ties
