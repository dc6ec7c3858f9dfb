"""All rows of attention that give the same output: a polytope, and what linear programs say about it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog
from torch import Tensor

from thalweg.decompose.value_space import ValueSpace
from thalweg.numerics import double

Row = Float[np.ndarray, " key"]
FEASIBLE = 1e-9  # how far the solver may be from a constraint
STARTS = 8  # from how many sides the farthest vertex is looked for, and how many large weights are tried again


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to one linear program. `gap` is how far its dual bound is from its value, whatever the solver says."""

    row: Row
    value: float
    gap: float
    status: str


@dataclass(frozen=True, eq=False)
class Polytope:
    """The distributions x over the keys that a row sees with columnsᵀ·x = columnsᵀ·weights.

    `columns` is an orthonormal basis of [T, 1] over these keys, `keys` their positions. Where the model has a sink,
    it stands as one more key at the end, with no value.
    """

    weights: Row
    columns: Float[np.ndarray, "key column"]
    keys: Int[np.ndarray, " seen"]

    @property
    def dimension(self) -> int:
        """How many independent directions lead from the row to others with the same output."""
        return self.columns.shape[0] - self.columns.shape[1]

    def minimise(self, objective: Row) -> Solution:
        """The smallest value of a linear function, at a vertex; by HiGHS."""
        if self.dimension == 0:
            return Solution(self.weights, float(objective @ self.weights), 0.0, "unique")
        shown = self.columns.T @ self.weights
        options = {"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE}
        found = linprog(objective, A_eq=self.columns.T, b_eq=shown, bounds=(0, None), method="highs", options=options)
        if found.status != 0:  # nothing is claimed beyond what holds for any distribution
            return Solution(self.weights, float(objective.min()), np.inf, str(found.message))
        # weak duality: y·b + min(0, min(c − columns·y)) is a lower bound, since x sums to one
        duals = found.eqlin.marginals
        slack = min(0.0, float((objective - self.columns @ duals).min()))
        bound = float(duals @ shown) + slack * float(self.weights.sum())
        return Solution(np.maximum(found.x, 0.0), float(found.fun), float(found.fun) - bound, "optimal")

    def interval(self, key: int) -> tuple[Solution, Solution]:
        """The smallest and the largest weight that one key (counted among those seen) could have."""
        one = np.zeros(len(self.weights))
        one[key] = 1.0
        least, most = self.minimise(one), self.minimise(-one)
        return least, Solution(most.row, min(-most.value, 1.0), most.gap, most.status)

    def farthest(self) -> tuple[Row, float]:
        """A vertex as far from the row as could be found, by total variation, and a bound on what could be.

        The distance is Σ_j max(0, a_j − x_j). It is convex, so that its largest value is at a vertex, and finding
        that is hard in general: here from several starts, and then from what one more or one less of the large
        weights being lowered leads to. No vertex is farther than 1 − min aᵀx.
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
        """Ask the keys that lost weight to lose as much as they can, until that changes nothing more."""
        best = self.weights
        while self._distance(found := self.minimise(objective).row) > self._distance(best) + FEASIBLE:
            best = found
            objective = (best < self.weights).astype(np.float64)
        return best

    def _distance(self, row: Row) -> float:
        return total_variation(self.weights, row)

    def _largest(self) -> Int[np.ndarray, " some"]:
        return np.argsort(-self.weights, kind="stable")[:STARTS]

    def _starts(self) -> Iterator[Row]:
        """Objectives to start from: all weights as they are, single large ones, and a few halves taken at random."""
        yield self.weights
        for key in self._largest()[: STARTS // 2]:
            yield np.eye(1, len(self.weights), key)[0]
        random = np.random.default_rng(0)
        for _ in range(STARTS // 2):
            yield random.integers(0, 2, len(self.weights)).astype(np.float64)


def polytope(space: ValueSpace, head: int, query: int, weights: Float[Tensor, " key"]) -> Polytope:
    """The polytope of one row, given its weights over all keys."""
    seen = space.supports[query].numpy()
    row = double(weights).numpy()[seen]
    if space.sinks:
        row = np.append(row, max(0.0, 1.0 - float(row.sum())))
    return Polytope(row, space.columns(head, query).numpy(), np.flatnonzero(seen))


def total_variation(one: Row, other: Row) -> float:
    """Half the sum of absolute differences: the mass that has to move."""
    return 0.5 * float(np.abs(one - other).sum())
