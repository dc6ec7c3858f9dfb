"""Queries that give one attention row the same output, followed along a curve."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.identifiability.keys import REACH, row_moves

MAX_STEPS = 60  # along the curve, in one direction
STEP_MASS = 0.05  # mass that one step moves
DIRECTIONS = 2  # hidden directions that are followed, both ways
MIN_MASS = 1e-3  # smaller moves of attention are not reported as an alternative
NEWTON_STEPS = 12

QueryMove = Float[Tensor, " size"]
KeyRow = Float[Tensor, " key"]


@dataclass(frozen=True, eq=False)
class Fibre:
    """The queries that give one row its output: a curve or more, along which attention moves and the output does not.

    A move δ of the query turns the row a into softmax(log a + K·δ). With a sink the row sums to less than one, and the
    sink keeps its logit. Where the model caps its logits z at c, c·tanh(z/c) moves instead: `raw` are the z.
    """

    start: KeyRow
    keys: Float[Tensor, "key size"]
    matrix: Float[Tensor, "key column"]
    cut: float
    raw: KeyRow | None
    cap: float

    @property
    def origin(self) -> QueryMove:
        return torch.zeros(self.keys.shape[1], dtype=torch.float64)

    @property
    def can_move(self) -> bool:
        """Whether a small query perturbation changes attention but not the output."""
        return self.hidden(self.origin).shape[1] > 0

    def farthest(self) -> KeyRow | None:
        """Follow the first hidden directions both ways; the row that moved most mass, None below `MIN_MASS`."""
        best, distance = None, MIN_MASS
        for direction in self.hidden(self.origin).mT[:DIRECTIONS]:
            for sign in (1.0, -1.0):
                row = self._walk(sign * direction)
                moved = self._mass(row)
                if moved > distance:
                    best, distance = row, moved
        return best

    def hidden(self, move: QueryMove) -> Float[Tensor, "size direction"]:
        """Query moves, each moving one unit of attention, that leave the output unchanged."""
        left, sizes, right = torch.linalg.svd(self._moves(move), full_matrices=False)
        reached = sizes > REACH * sizes[:1]
        shown = self.matrix.mT @ left[:, reached]  # [column reached]
        _, values, inner = torch.linalg.svd(shown, full_matrices=True)
        dark = inner[int((values > self.cut).sum()) :]  # [direction reached]
        return (right[reached] / sizes[reached, None]).mT @ dark.mT

    def _mass(self, row: KeyRow) -> float:
        """Total variation from the start."""
        return 0.5 * float((row - self.start).abs().sum())

    def _row(self, move: QueryMove) -> KeyRow:
        logits = self.start.log() + self._logit_change(move)
        sink = (1 - self.start.sum()).clamp_min(0).log()[None]
        return torch.cat([logits, sink]).softmax(0)[:-1]

    def _logit_change(self, move: QueryMove) -> KeyRow:
        moved = self.keys @ move
        if self.raw is None:
            return moved
        return self.cap * (torch.tanh((self.raw + moved) / self.cap) - torch.tanh(self.raw / self.cap))

    def _moves(self, move: QueryMove) -> Float[Tensor, "key size"]:
        """How attention moves with the query at this point."""
        slopes = None if self.raw is None else 1 - torch.tanh((self.raw + self.keys @ move) / self.cap).square()
        return row_moves(self._row(move)[None], self.keys, None if slopes is None else slopes[None])[0]

    def _walk(self, direction: QueryMove) -> KeyRow:
        """Step along the hidden direction nearest to the last one; Newton steps restore the output after each step."""
        move, row, goal = self.origin, self.start, self.matrix.mT @ self.start
        stride, distance = STEP_MASS, 0.0
        for _ in range(MAX_STEPS):
            trial = self._corrected(move + stride * direction, goal)
            moved = 0.0 if trial is None else self._mass(self._row(trial))
            if trial is None or moved <= distance:
                stride /= 2
                if stride < STEP_MASS / 64:
                    break
                continue
            move, row, distance = trial, self._row(trial), moved
            hidden = self.hidden(move)
            if not hidden.shape[1]:
                break
            moves = self._moves(move)
            ahead = torch.linalg.lstsq(moves @ hidden, (moves @ direction)[:, None]).solution[:, 0]
            direction = hidden @ ahead
            direction = direction / (moves @ direction).norm().clamp_min(torch.finfo(torch.float64).tiny)
        return row

    def _corrected(self, move: QueryMove, goal: Tensor) -> QueryMove | None:
        """Restore the output by Gauss-Newton steps; None if they do not converge."""
        for _ in range(NEWTON_STEPS):
            miss = self.matrix.mT @ self._row(move) - goal
            if not bool(miss.isfinite().all()):
                return None
            if float(miss.norm()) < 1e-13 * max(1.0, float(goal.norm())):
                return move
            slope = self.matrix.mT @ self._moves(move)  # [column size]
            move = move - torch.linalg.pinv(slope, rtol=self.cut * 1e-2) @ miss
        miss = self.matrix.mT @ self._row(move) - goal
        return move if float(miss.norm()) < 1e-10 else None
