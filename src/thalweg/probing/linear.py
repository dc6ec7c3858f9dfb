"""Linear maps in closed form from sums that are gathered in one pass, however long the corpus is."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.probing.search import Metric, take

STRENGTHS = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # of the ridge, relative to the mean variance of a channel


@dataclass(eq=False)
class Moments:
    """Sums over tokens, in double precision: what least squares needs to know of inputs X and some targets Y.

    `inner` is X₁ᵀX₁ and `cross` X₁ᵀY, where X₁ is X with a column of ones (so that counts and sums are inside);
    `size` is Σ‖y‖². Their memory depends on the widths only.
    """

    inner: Float[Tensor, "taken_and_one taken_and_one"]
    cross: Float[Tensor, "target taken_and_one width"]
    size: Float[Tensor, " target"]

    @staticmethod
    def empty(taken: int, targets: int, width: int) -> "Moments":
        shapes = (taken + 1, taken + 1), (targets, taken + 1, width), (targets,)
        return Moments(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def add(self, given: Float[Tensor, "token taken"], wanted: Float[Tensor, "target token width"]) -> None:
        ones = F.pad(given.double(), (0, 1), value=1.0)
        wanted = wanted.double()
        self.inner += ones.mT @ ones
        self.cross += ones.mT @ wanted
        self.size += wanted.square().sum((1, 2))

    @property
    def count(self) -> float:
        return float(self.inner[-1, -1])

    def spread(self) -> tuple[Float[Tensor, " taken"], Float[Tensor, " taken"]]:
        """Mean and standard deviation of each input channel."""
        mean = self.inner[-1, :-1] / self.count
        variance = self.inner.diagonal()[:-1] / self.count - mean.square()
        return mean, variance.clamp_min(0).sqrt()


@dataclass(frozen=True, eq=False)
class LinearMap:
    """g(h) = h W + b."""

    weight: Float[Tensor, "taken width"]
    bias: Float[Tensor, " width"]

    def __call__(self, given: Float[Tensor, "*token taken"]) -> Float[Tensor, "*token width"]:
        return given @ self.weight.to(given.dtype) + self.bias.to(given.dtype)


def target(metric: Metric, wanted: Float[Tensor, "token width"]) -> Float[Tensor, "token width"]:
    """What least squares is fitted to: the state itself for l2, its direction x/‖x‖ for cosine.

    The cosine has no closed form of its own. With targets of length one, ‖g − x/‖x‖‖² = ‖g‖² − 2‖g‖ cos + 1 depends
    on the cosine and on the estimate's length only, is 2 − 2 cos for estimates of length one, and never less than
    1 − cos²: it is a bound on what is wanted, in which every token counts alike whatever its norm. A map that is
    trained on the cosine itself can be better.
    """
    return wanted if metric == "l2" else take("angle", wanted)


def fit(train: Moments, validation: Moments) -> list[tuple[LinearMap, float]]:
    """For each target the ridge regression whose strength does best on the validation sums: (map, strength).

    W = (C + λ c I)⁻¹ D with C the covariance of inputs, D that of inputs and targets, c the mean of C's diagonal;
    the mean is not shrunk. λ is the one of `STRENGTHS` with the smallest Σ‖g(h) − y‖² on the validation sums.
    """
    mean, _ = train.spread()
    values, vectors = torch.linalg.eigh(train.inner[:-1, :-1] / train.count - torch.outer(mean, mean))
    channel = values.mean().clamp_min(torch.finfo(values.dtype).tiny)
    found = []
    for number, cross in enumerate(train.cross / train.count):
        middle = cross[-1]
        turned = vectors.mT @ (cross[:-1] - torch.outer(mean, middle))  # [direction width]
        tried = []
        for strength in STRENGTHS:
            weight = vectors @ (turned / (values.clamp_min(0) + strength * channel)[:, None])
            solution = torch.cat([weight, (middle - mean @ weight)[None]])  # [taken_and_one width]
            tried.append((squared_error(solution, validation, number), strength, solution))
        _, strength, solution = min(tried, key=lambda one: one[0])
        found.append((LinearMap(solution[:-1].float(), solution[-1].float()), strength))
    return found


def squared_error(solution: Float[Tensor, "taken_and_one width"], moments: Moments, number: int) -> float:
    """Σ‖g(h) − y‖² over the tokens behind the sums: tr(SᵀX₁ᵀX₁S) − 2 tr(SᵀX₁ᵀY) + Σ‖y‖²."""
    change = moments.inner @ solution - 2 * moments.cross[number]
    return float((solution * change).sum() + moments.size[number])
