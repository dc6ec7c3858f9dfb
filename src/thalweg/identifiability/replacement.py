"""A really different attention with the same output, and the proof that the model cannot tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import TokenMap
from thalweg.capture.attention import Call
from thalweg.capture.record import Block, Capture
from thalweg.decompose.value_space import ValueSpace
from thalweg.identifiability.keys import FINEST, REACH, row_moves
from thalweg.identifiability.polytope import polytope, total_variation
from thalweg.numerics import double
from thalweg.progress import progress

STEPS = 60  # along the curve of queries that give the same output
STRIDE = 0.05  # mass that one step moves
WAYS = 2  # hidden directions that are walked, both ways
WORTH = 1e-3  # a smaller move of attention is no alternative


@dataclass(frozen=True, eq=False)
class Replacement:
    """Another map for one head, [query key]; `queries` are the rows that differ, `at_most` bounds how far."""

    map: TokenMap
    queries: list[int]
    at_most: list[float]


def in_polytope(space: ValueSpace, head: int, weights: TokenMap, queries: Sequence[int]) -> Replacement | str:
    """The farthest vertex that was found for each row; or why there is none."""
    changed, moved, bounds = double(weights).clone(), [], []
    with progress("alternatives") as report:
        for number, query in enumerate(queries):
            if space.ambiguity[head, query] > 0:
                row = polytope(space, head, query, weights[query])
                found, bound = row.farthest()
                if total_variation(row.weights, found) > WORTH:  # a row at the edge may have nowhere to go
                    changed[query, row.keys] = torch.from_numpy(found[: len(row.keys)])
                    moved.append(query)
                    bounds.append(bound)
            report(number + 1, len(queries))
    if not moved:
        return "no row of this head can change while its output stays: its attention is determined"
    return Replacement(changed, moved, bounds)


def through_keys(
    block: Block, space: ValueSpace, head: int, weights: TokenMap, queries: Sequence[int]
) -> Replacement | str:
    """For each row the farthest softmax of the head's own keys that was found; or why there is none."""
    keys = block.attention.keys()
    if keys is None:
        return "the keys of this model were not seen"
    own, cap = double(keys[head]), block.attention.softcap
    raw = None if cap is None else double(block.attention.logits()[head])
    changed, moved, open_rows = double(weights).clone(), [], 0
    for query in queries:
        seen = space.supports[query] & (changed[query] > 0)
        matrix = space.matrix[head, seen]
        matrix = matrix / matrix.norm().clamp_min(torch.finfo(matrix.dtype).tiny)
        bent = None if raw is None else raw[query, seen]
        row = _Fibre(changed[query, seen], own[seen], matrix, max(space.cut, FINEST), bent, cap or 1.0)
        if not row.hidden(row.origin).shape[1]:
            continue
        open_rows += 1
        found = row.farthest()
        if found is not None:
            changed[query, seen] = found
            moved.append(query)
    if not open_rows:
        return "no row can change as a softmax of the head's own keys, for small changes of the query"
    if not moved:
        return (
            f"{open_rows} rows can change as softmaxes of the head's own keys, but by less than {WORTH:g} of their mass"
        )
    return Replacement(changed, moved, [1.0] * len(moved))


@dataclass(frozen=True, eq=False)
class _Fibre:
    """The queries that give one row its output: a curve or more, along which attention moves and the output does not.

    A move δ of the query makes the row softmax(log a + K·δ). With a sink the row sums to less than one, and the sink
    keeps its logit. Where the model caps its logits z at c, c·tanh(z/c) moves instead: `raw` are the z.
    """

    start: Float[Tensor, " key"]
    keys: Float[Tensor, "key size"]
    matrix: Float[Tensor, "key column"]
    cut: float
    raw: Float[Tensor, " key"] | None
    cap: float

    @property
    def origin(self) -> Float[Tensor, " size"]:
        return torch.zeros(self.keys.shape[1], dtype=torch.float64)

    def farthest(self) -> Float[Tensor, " key"] | None:
        """Walk both ways along the first hidden directions; the row that moved most mass, None if hardly any."""
        best, distance = None, WORTH
        for direction in self.hidden(self.origin).mT[:WAYS]:
            for sign in (1.0, -1.0):
                found = self._walk(sign * direction)
                moved = 0.5 * float((found - self.start).abs().sum())
                if moved > distance:
                    best, distance = found, moved
        return best

    def _row(self, move: Float[Tensor, " size"]) -> Float[Tensor, " key"]:
        logits = self.start.log() + self._lifted(move)
        sink = (1 - self.start.sum()).clamp_min(0).log()[None]
        return torch.cat([logits, sink]).softmax(0)[:-1]

    def _lifted(self, move: Float[Tensor, " size"]) -> Float[Tensor, " key"]:
        """How the logits move."""
        moved = self.keys @ move
        if self.raw is None:
            return moved
        return self.cap * (torch.tanh((self.raw + moved) / self.cap) - torch.tanh(self.raw / self.cap))

    def _moves(self, move: Float[Tensor, " size"]) -> Float[Tensor, "key size"]:
        """How attention moves with the query from here on."""
        bends = None if self.raw is None else 1 - torch.tanh((self.raw + self.keys @ move) / self.cap).square()
        return row_moves(self._row(move)[None], self.keys, None if bends is None else bends[None])[0]

    def hidden(self, move: Float[Tensor, " size"]) -> Float[Tensor, "size direction"]:
        """Moves of the query, each moving one unit of attention, that leave the output where it is."""
        left, sizes, right = torch.linalg.svd(self._moves(move), full_matrices=False)
        reached = sizes > REACH * sizes[:1]
        shown = self.matrix.mT @ left[:, reached]  # [column reached]
        _, values, inner = torch.linalg.svd(shown, full_matrices=True)
        dark = inner[int((values > self.cut).sum()) :]  # [direction reached]
        return (right[reached] / sizes[reached, None]).mT @ dark.mT

    def _walk(self, direction: Float[Tensor, " size"]) -> Float[Tensor, " key"]:
        """Steps along the hidden direction nearest to the last one, each followed by Newton steps to the output."""
        move, row, goal = self.origin, self.start, self.matrix.mT @ self.start
        stride, distance = STRIDE, 0.0
        for _ in range(STEPS):
            trial = self._corrected(move + stride * direction, goal)
            moved = 0.0 if trial is None else 0.5 * float((self._row(trial) - self.start).abs().sum())
            if trial is None or moved <= distance:
                stride /= 2
                if stride < STRIDE / 64:
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

    def _corrected(self, move: Float[Tensor, " size"], goal: Tensor) -> Float[Tensor, " size"] | None:
        """Gauss-Newton back to the same output; None where it is not reached."""
        for _ in range(12):
            row = self._row(move)
            miss = self.matrix.mT @ row - goal
            if not bool(miss.isfinite().all()):
                return None
            if float(miss.norm()) < 1e-13 * max(1.0, float(goal.norm())):
                return move
            slope = self.matrix.mT @ self._moves(move)  # [column size]
            move = move - torch.linalg.pinv(slope, rtol=self.cut * 1e-2) @ miss
        miss = self.matrix.mT @ self._row(move) - goal
        return move if float(miss.norm()) < 1e-10 else None


@dataclass(eq=False)
class _Replacing:
    """Runs the model's own attention; in one block, one head of every copy writes what its own map says."""

    number: int
    head: int
    outputs: list[Float[Tensor, "query value_size"] | None]
    calls: int = 0

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        output, weights = call.run()  # [copy query head value_size]
        here, self.calls = self.calls == self.number, self.calls + 1
        if here:
            output = output.clone()
            for copy, written in enumerate(self.outputs):
                if written is not None:
                    output[copy, : len(written), self.head] = written.to(output)
        return output, weights


@dataclass(frozen=True)
class Proof:
    """What the model's output did: `moved` for each map that was tried, relative to the largest output."""

    compared: str
    moved: dict[str, float]
    allowed: float


def prove(capture: Capture, number: int, head: int, maps: Mapping[str, TokenMap]) -> Proof:
    """Run the model with one head's attention replaced by each map, and compare what comes out at the top.

    All maps run in one batch, the untouched model as its first example. Rounding is judged by the model's precision
    and by what the "original" map does, when it is computed again and put in like the others.
    """
    block = capture.blocks[number]
    values = block.attention.values()[head]
    outputs = [None, *(one.to(values) @ values for one in maps.values())]
    with torch.no_grad():
        record = capture.replay(_Replacing(number, head, outputs), copies=len(outputs))
    name, result = _top(record.result)
    result = result.to("cpu", torch.float64)
    size = result[0].abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    away = ((result[1:] - result[:1]).flatten(1).abs().amax(1) / size).tolist()
    moved = dict(zip(maps, away, strict=True))
    rounding = torch.finfo(block.attention.value.dtype).eps * len(capture.blocks) ** 0.5
    return Proof(name, moved, 4 * max(rounding, moved["original"]))


def control(weights: TokenMap, other: Replacement) -> TokenMap:
    """As much mass moved in every row, but at random: towards a random distribution over the keys it sees."""
    generator = torch.Generator().manual_seed(0)
    weights, elsewhere = double(weights), double(weights).clone()
    for query in other.queries:
        seen = weights[query] > 0
        mass = total_variation(weights[query].numpy(), other.map[query].numpy())
        random = torch.rand(int(seen.sum()), dtype=torch.float64, generator=generator) ** 8
        random = random / random.sum() * weights[query].sum()
        full = total_variation(weights[query, seen].numpy(), random.numpy())
        share = min(1.0, mass / full) if full else 0.0
        elsewhere[query, seen] = (1 - share) * weights[query, seen] + share * random
    return elsewhere


def _top(result: Any) -> tuple[str, Tensor]:
    """The output that is compared, and its name."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(result, Mapping) and isinstance(result.get(name), Tensor):
            return name, result[name]
    first = next(one for one in (result.values() if isinstance(result, Mapping) else result) if isinstance(one, Tensor))
    return "output", first
