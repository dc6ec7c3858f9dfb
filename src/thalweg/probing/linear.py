"""Linear probes in closed form, from sums that are gathered in one pass over the corpus."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.probing.search import Metric, take

RIDGE_STRENGTHS = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # relative to the mean variance of a channel


@dataclass(eq=False)
class Moments:
    """Sums over tokens in double precision: the sufficient statistics of least squares for inputs X and targets Y.

    `inner` is X₁ᵀX₁ and `cross` is X₁ᵀY, where X₁ is X with a column of ones (which adds counts and sums); `size` is
    Σ‖y‖². Memory depends on the widths only, not on the number of tokens.
    """

    inner: Float[Tensor, "taken_and_one taken_and_one"]
    cross: Float[Tensor, "target taken_and_one width"]
    size: Float[Tensor, " target"]

    @staticmethod
    def empty(taken: int, targets: int, width: int) -> "Moments":
        shapes = (taken + 1, taken + 1), (targets, taken + 1, width), (targets,)
        return Moments(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def add(self, inputs: Float[Tensor, "token taken"], targets: Float[Tensor, "target token width"]) -> None:
        """Add the tokens of a batch."""
        padded = F.pad(inputs.double(), (0, 1), value=1.0)
        targets = targets.double()
        self.inner += padded.mT @ padded
        self.cross += padded.mT @ targets
        self.size += targets.square().sum((1, 2))

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

    def __call__(self, states: Float[Tensor, "*token taken"]) -> Float[Tensor, "*token width"]:
        return states @ self.weight.to(states.dtype) + self.bias.to(states.dtype)


def regression_target(metric: Metric, states: Float[Tensor, "token width"]) -> Float[Tensor, "token width"]:
    """The target of least squares: the state itself for l2, its direction x/‖x‖ for cosine.

    The cosine has no closed form. With unit-length targets, ‖g − x/‖x‖‖² = ‖g‖² − 2‖g‖ cos + 1 depends on the cosine
    and on the estimate's length only, equals 2 − 2 cos for unit-length estimates, and is at least 1 − cos². It bounds
    the cosine loss, and weighs every token alike whatever its norm; a map trained on the cosine itself can be better.
    """
    return states if metric == "l2" else take("angle", states)


def fit_ridge(train: Moments, validation: Moments) -> list[tuple[LinearMap, float]]:
    """For each target, the ridge regression with the best strength on the validation sums: (map, strength).

    W = (C + λ c I)⁻¹ D, where C is the covariance of the inputs, D that of inputs and targets, and c the mean of C's
    diagonal; the mean is not shrunk. λ is the element of `RIDGE_STRENGTHS` with the smallest validation Σ‖g(h) − y‖².
    """
    mean, _ = train.spread()
    values, vectors = torch.linalg.eigh(train.inner[:-1, :-1] / train.count - torch.outer(mean, mean))
    channel = values.mean().clamp_min(torch.finfo(values.dtype).tiny)
    fits = []
    for target, cross in enumerate(train.cross / train.count):
        target_mean = cross[-1]
        turned = vectors.mT @ (cross[:-1] - torch.outer(mean, target_mean))  # [direction width]
        trials = []
        for strength in RIDGE_STRENGTHS:
            weight = vectors @ (turned / (values.clamp_min(0) + strength * channel)[:, None])
            solution = torch.cat([weight, (target_mean - mean @ weight)[None]])  # [taken_and_one width]
            trials.append((squared_error(solution, validation, target), strength, solution))
        _, strength, solution = min(trials, key=lambda trial: trial[0])
        fits.append((LinearMap(solution[:-1].float(), solution[-1].float()), strength))
    return fits


def squared_error(solution: Float[Tensor, "taken_and_one width"], moments: Moments, target: int) -> float:
    """Σ‖g(h) − y‖² over the tokens behind the sums: tr(SᵀX₁ᵀX₁S) − 2 tr(SᵀX₁ᵀY) + Σ‖y‖²."""
    change = moments.inner @ solution - 2 * moments.cross[target]
    return float((solution * change).sum() + moments.size[target])
