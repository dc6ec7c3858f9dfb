"""The lowest and highest AOPC of any removal order: exact for short inputs, by beam search for longer ones.

A removal order is a chain of sets, each with one more token. The sum of the answers along it is lowest (and AOPC
highest) for the shortest path through the sets, which dynamic programming over their size finds: 2^m passes instead of
m! orders.
"""

from itertools import combinations

from thalweg.decompose.edits import Operator
from thalweg.errors import InputError
from thalweg.faithfulness.case import Case

MAX_EXACT_TOKENS = 8  # all subsets are tried: 256 passes
BEAM_WIDTH = 5  # orders followed at once in longer inputs
MAX_TOKENS = 100  # 5·m² passes are 50,000 for one input

Positions = frozenset[int]


def aopc_bounds(
    case: Case, operator: Operator, max_exact_tokens: int = MAX_EXACT_TOKENS, beam_width: int = BEAM_WIDTH
) -> tuple[float, float]:
    """(lowest, highest) AOPC, computed once for all methods."""
    key = ("aopc bounds", operator, max_exact_tokens, beam_width)
    if key not in case.cache:
        count = len(case.removable)
        if count > MAX_TOKENS:
            raise InputError(
                f"AOPC bounds support up to {MAX_TOKENS} tokens, got {count} (about {beam_width * count**2:,} passes); "
                "drop naopc, or use shorter texts"
            )
        exact = count <= max_exact_tokens
        low, high = _sums_of_all_orders(case, operator) if exact else _sums_by_beam(case, operator, beam_width)
        full = float(case.scorer([case.original])[0])
        case.cache[key] = (full - high / count, full - low / count)
    return case.cache[key]


def _sums_of_all_orders(case: Case, operator: Operator) -> tuple[float, float]:
    """(lowest, highest) sum of the answers along any order."""
    lowest: dict[Positions, float] = {frozenset(): 0.0}
    highest = dict(lowest)
    for size in range(1, len(case.removable) + 1):
        subsets = [frozenset(subset) for subset in combinations(case.removable, size)]
        answers = case.scorer([case.without(sorted(subset), operator) for subset in subsets])
        for subset, answer in zip(subsets, answers, strict=True):
            lowest[subset] = float(answer) + min(lowest[subset - {position}] for position in subset)
            highest[subset] = float(answer) + max(highest[subset - {position}] for position in subset)
    everything = frozenset(case.removable)
    return lowest[everything], highest[everything]


def _sums_by_beam(case: Case, operator: Operator, width: int) -> tuple[float, float]:
    """The same over the orders that stay among the best at every step; orders of the same set are merged."""
    lowest, highest = (sign * _lowest_by_beam(case, operator, width, sign) for sign in (1, -1))
    return lowest, highest


def _lowest_by_beam(case: Case, operator: Operator, width: int, sign: int) -> float:
    """The lowest sum of sign · answer."""
    beam: dict[Positions, float] = {frozenset(): 0.0}
    for _ in case.removable:
        steps = [(before, before | {token}) for before in beam for token in case.removable if token not in before]
        answers = case.scorer([case.without(sorted(after), operator) for _, after in steps])
        totals: dict[Positions, float] = {}
        for (before, after), answer in zip(steps, answers, strict=True):
            total = beam[before] + sign * float(answer)
            totals[after] = min(total, totals.get(after, total))
        beam = dict(sorted(totals.items(), key=lambda entry: (entry[1], sorted(entry[0])))[:width])
    return min(beam.values())
