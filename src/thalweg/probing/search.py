"""Nearest neighbours: which candidate a recovered state is closest to, and whether it is a right one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

Part = Literal["whole", "angle", "norm"]
Metric = Literal["cosine", "l2"]
ROUNDING = 32  # units of the last place that equal similarities may differ by


def take(part: Part, states: Float[Tensor, "*token width"]) -> Float[Tensor, "*token taken"]:
    """What is known of a state: all of it, its direction h/‖h‖, or its length ‖h‖ alone."""
    if part == "whole":
        return states
    length = states.norm(dim=-1, keepdim=True)
    return length if part == "norm" else states / length.clamp_min(torch.finfo(states.dtype).tiny)


def similarity(
    metric: Metric,
    given: Float[Tensor, "*group query width"],
    candidates: Float[Tensor, "*group candidate width"],
) -> tuple[Float[Tensor, "*group query candidate"], Float[Tensor, "*group query one"]]:
    """How near every candidate is, and how far two numbers may differ by rounding: the nearest is the largest.

    cosine: ⟨g, c⟩ / ‖g‖‖c‖. l2: 2⟨g, c⟩ − ‖c‖², which is −‖g − c‖² without what all candidates share; of single
    numbers −|g − c|, since squares would lose half of their digits.
    """
    rounding = ROUNDING * torch.finfo(given.dtype).eps
    if metric == "l2" and given.shape[-1] == 1:
        return -(given - candidates.mT).abs(), rounding * given.abs()
    if metric == "cosine":
        given, candidates = take("angle", given), take("angle", candidates)
    near = given @ candidates.mT  # [… query candidate]
    size = candidates.square().sum(-1)[..., None, :]  # [… 1 candidate]
    if metric == "l2":
        near = 2 * near - size
    largest = size.amax(-1, keepdim=True)
    scale = 2 * given.norm(dim=-1, keepdim=True) * largest.sqrt() + largest  # [… query 1]
    return near, rounding * scale


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest candidates so far: how near, how many are that near, how many of them are right, one of them.

    A tie is counted fairly: if k candidates are equally near and r of them right, the hit counts r/k.
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
        best, first = near.max(-1, keepdim=True)
        tied = near >= best - slack
        return Nearest(
            best[..., 0],
            tied.sum(-1).to(near.dtype),
            (tied & right).sum(-1).to(near.dtype),
            first[..., 0] + start,
        )

    def merged(self, other: "Nearest", slack: Float[Tensor, "*query one"]) -> "Nearest":
        """Over the candidates of both; what is nearer by more than rounding wins."""
        mine = (self.near >= other.near - slack[..., 0]).to(self.near.dtype)
        theirs = (other.near >= self.near - slack[..., 0]).to(self.near.dtype)
        return Nearest(
            torch.maximum(self.near, other.near),
            mine * self.ties + theirs * other.ties,
            mine * self.right + theirs * other.right,
            torch.where(mine > 0, self.first, other.first),
        )

    @staticmethod
    def joined(some: "Sequence[Nearest]") -> "Nearest":
        """The queries of all, one after the other."""
        return Nearest(*(torch.cat([getattr(one, part.name) for one in some]) for part in fields(Nearest)))

    def at(self, *places: Tensor | int) -> "Nearest":
        """The queries at these places of the leading axes."""
        return Nearest(*(getattr(self, part.name)[places] for part in fields(Nearest)))

    @property
    def hits(self) -> Float[Tensor, "*query"]:
        return self.right / self.ties
