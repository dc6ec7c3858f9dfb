"""Different attention maps of one head with the same output: any distribution, or softmaxes of its own keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from thalweg.axes import TokenMap
from thalweg.capture.record import Block
from thalweg.decompose.value_space import ValueSpace
from thalweg.identifiability.fibre import MIN_MASS, Fibre
from thalweg.identifiability.keys import FINEST
from thalweg.identifiability.movable import moved_mass, one_head, witnesses
from thalweg.identifiability.polytope import polytope, total_variation
from thalweg.numerics import double
from thalweg.progress import progress

DETERMINED = "no row can change while the head's output stays the same: attention is determined"


@dataclass(frozen=True, eq=False)
class Replacement:
    """A different map of one head, [query key]; `queries` are the rows that differ, `at_most` bounds how far."""

    map: TokenMap
    queries: tuple[int, ...]
    at_most: tuple[float, ...]


@dataclass(frozen=True)
class NoReplacement:
    """The reason why a head has no different map with the same output."""

    reason: str


def in_polytope(space: ValueSpace, head: int, weights: TokenMap, queries: Sequence[int]) -> Replacement | NoReplacement:
    """Replace each row by the farthest distribution found that gives the same output."""
    changed, moved, bounds = double(weights).clone(), [], []
    with progress("alternatives") as report:
        for done, query in enumerate(queries, 1):
            if space.ambiguity[head, query] > 0:
                row = polytope(space, head, query, weights[query])
                vertex, bound = row.farthest()
                if total_variation(row.weights, vertex) > MIN_MASS:  # a row at the boundary may be unable to move
                    changed[query, row.keys] = torch.from_numpy(vertex[: len(row.keys)])
                    moved.append(query)
                    bounds.append(bound)
            report(done, len(queries))
    if not moved:
        return NoReplacement(DETERMINED)
    return Replacement(changed, tuple(moved), tuple(bounds))


def by_scaling(space: ValueSpace, head: int, weights: TokenMap, queries: Sequence[int]) -> Replacement | NoReplacement:
    """Replace each row by its witness: nearer than the farthest distribution, but found much faster."""
    rows = torch.tensor(list(queries))
    others = witnesses(one_head(space, head), rows, weights[None, rows])
    far = moved_mass(weights[None, rows], others)[0] > MIN_MASS
    if not far.any():
        return NoReplacement(DETERMINED)
    changed = double(weights).clone()
    changed[rows[far]] = others[0, far]
    return Replacement(changed, tuple(rows[far].tolist()), (1.0,) * int(far.sum()))


def through_keys(
    block: Block, space: ValueSpace, head: int, weights: TokenMap, queries: Sequence[int]
) -> Replacement | NoReplacement:
    """Replace each row by the farthest softmax of the head's own keys found that gives the same output."""
    keys = block.attention.keys()
    if keys is None:
        return NoReplacement("the keys of this model were not captured")
    own_keys, cap = double(keys[head]), block.attention.softcap
    raw = None if cap is None else double(block.attention.logits()[head])
    changed, moved, open_rows = double(weights).clone(), [], 0
    for query in queries:
        seen = space.supports[query] & (changed[query] > 0)
        matrix = space.matrix[head, seen]
        matrix = matrix / matrix.norm().clamp_min(torch.finfo(matrix.dtype).tiny)
        logits = None if raw is None else raw[query, seen]
        fibre = Fibre(changed[query, seen], own_keys[seen], matrix, max(space.cut, FINEST), logits, cap or 1.0)
        if not fibre.can_move:
            continue
        open_rows += 1
        row = fibre.farthest()
        if row is not None:
            changed[query, seen] = row
            moved.append(query)
    if not open_rows:
        return NoReplacement("no row can change: all are locally unique given the keys (small query perturbations)")
    if not moved:
        return NoReplacement(
            f"{open_rows} rows can change as softmaxes of the head's own keys, but by less than {MIN_MASS:g} of their "
            "mass"
        )
    return Replacement(changed, tuple(moved), (1.0,) * len(moved))


def control(weights: TokenMap, other: Replacement) -> TokenMap:
    """Move as much mass in every replaced row, towards a random distribution over the keys with weight."""
    generator = torch.Generator().manual_seed(0)
    weights, moved = double(weights), double(weights).clone()
    for query in other.queries:
        seen = weights[query] > 0
        mass = total_variation(weights[query].numpy(), other.map[query].numpy())
        random = torch.rand(int(seen.sum()), dtype=torch.float64, generator=generator) ** 8
        random = random / random.sum() * weights[query].sum()
        full = total_variation(weights[query, seen].numpy(), random.numpy())
        share = min(1.0, mass / full) if full else 0.0
        moved[query, seen] = (1 - share) * weights[query, seen] + share * random
    return moved
