"""The polytope of all attention rows with the same output, explored by linear programming."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog
from torch import Tensor

from thalweg.decompose.value_space import ValueSpace
from thalweg.numerics import double

Row = Float[np.ndarray, " key"]
FEASIBLE = 1e-9  # tolerance of the solver's constraints
STARTS = 8  # starting points of the search for the farthest vertex, and large weights that it flips


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of one linear program. `gap` is its value minus its dual bound, computed here, not by the solver."""

    row: Row
    value: float
    gap: float
    status: str


@dataclass(frozen=True, eq=False)
class Polytope:
    """The distributions x over the visible keys of a row with columnsᵀ·x = columnsᵀ·weights.

    `columns` is an orthonormal basis of [T, 1] over these keys, `keys` are their positions. An attention sink is one
    more key at the end, without a value.
    """

    weights: Row
    columns: Float[np.ndarray, "key column"]
    keys: Int[np.ndarray, " seen"]

    @property
    def dimension(self) -> int:
        """Number of independent directions from the row to others with the same output."""
        return self.columns.shape[0] - self.columns.shape[1]

    def minimise(self, objective: Row) -> Solution:
        """Minimise a linear function with HiGHS; the minimum is attained at a vertex."""
        if self.dimension == 0:
            return Solution(self.weights, float(objective @ self.weights), 0.0, "unique")
        shown = self.columns.T @ self.weights
        options = {"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE}
        result = linprog(objective, A_eq=self.columns.T, b_eq=shown, bounds=(0, None), method="highs", options=options)
        if result.status != 0:  # fall back to the bound that holds for any distribution
            return Solution(self.weights, float(objective.min()), np.inf, str(result.message))
        # weak duality: y·b + min(0, min(c − columns·y)) is a lower bound because x sums to one
        duals = result.eqlin.marginals
        slack = min(0.0, float((objective - self.columns @ duals).min()))
        bound = float(duals @ shown) + slack * float(self.weights.sum())
        return Solution(np.maximum(result.x, 0.0), float(result.fun), float(result.fun) - bound, "optimal")

    def interval(self, key: int) -> tuple[Solution, Solution]:
        """The smallest and the largest possible weight of one key, counted among the visible ones."""
        unit = np.zeros(len(self.weights))
        unit[key] = 1.0
        least, most = self.minimise(unit), self.minimise(-unit)
        return least, Solution(most.row, min(-most.value, 1.0), most.gap, most.status)

    def farthest(self) -> tuple[Row, float]:
        """The vertex farthest from the row in total variation that a local search finds, and an upper bound.

        The distance Σ_j max(0, a_j − x_j) is convex, so a vertex attains its maximum, but finding that vertex is hard
        in general. The search climbs from several starting points, then from the best vertex with one of the large
        weights flipped between lowered and not lowered. No vertex is farther than 1 − min aᵀx.
        """
        first = self.minimise(self.weights)
        bound = max(0.0, float(self.weights.sum()) - (first.value - first.gap))
        best = max((self._climbed(start) for start in self._starts()), key=self._distance)
        improved = True
        while improved:
            improved = False
            for key in self._largest():
                lowered = (best < self.weights).astype(np.float64)
                lowered[key] = 1 - lowered[key]
                other = self._climbed(lowered)
                if self._distance(other) > self._distance(best) + FEASIBLE:
                    best, improved = other, True
        return best, bound

    def _climbed(self, objective: Row) -> Row:
        """Minimise the total weight of the keys that lost weight, until nothing changes."""
        best = self.weights
        while self._distance(vertex := self.minimise(objective).row) > self._distance(best) + FEASIBLE:
            best = vertex
            objective = (best < self.weights).astype(np.float64)
        return best

    def _distance(self, row: Row) -> float:
        return total_variation(self.weights, row)

    def _largest(self) -> Int[np.ndarray, " some"]:
        return np.argsort(-self.weights, kind="stable")[:STARTS]

    def _starts(self) -> Iterator[Row]:
        """Objectives to start from: all weights, single large ones, and random halves of the keys."""
        yield self.weights
        for key in self._largest()[: STARTS // 2]:
            yield np.eye(1, len(self.weights), key)[0]
        random = np.random.default_rng(0)
        for _ in range(STARTS // 2):
            yield random.integers(0, 2, len(self.weights)).astype(np.float64)


def polytope(space: ValueSpace, head: int, query: int, weights: Float[Tensor, " key"]) -> Polytope:
    """Build the polytope of one row from its weights over all keys."""
    seen = space.supports[query].numpy()
    row = double(weights).numpy()[seen]
    if space.sinks:
        row = np.append(row, max(0.0, 1.0 - float(row.sum())))
    return Polytope(row, space.columns(head, query).numpy(), np.flatnonzero(seen))


def total_variation(first: Row, second: Row) -> float:
    """Half the sum of absolute differences: the mass that has to move."""
    return 0.5 * float(np.abs(first - second).sum())
