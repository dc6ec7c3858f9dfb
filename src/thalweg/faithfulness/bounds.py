"""The best and the worst that any order of an input's tokens can reach: exactly for short inputs, else by beam search.

An order of removal is a chain of sets, each with one token more. The sum of the answers along it is least (and AOPC
greatest) for the shortest path through all sets, which is found by going through them from small to large: 2^m passes
instead of m! orders.
"""

from itertools import combinations

from thalweg.errors import InputError
from thalweg.faithfulness.case import Case
from thalweg.faithfulness.operators import Operator

EXACT = 8  # tokens whose sets are all tried: 256 passes
BEAM = 5  # orders that are followed at once where there are more
LONGEST = 100  # tokens above which it is refused: 5·m² passes are 50,000 for one input

Places = frozenset[int]


def aopc_bounds(case: Case, operator: Operator, exact: int = EXACT, beam: int = BEAM) -> tuple[float, float]:
    """(lowest, highest) AOPC; all methods share them."""
    key = ("aopc bounds", operator, exact, beam)
    if key not in case.memory:
        count = len(case.movable)
        if count > LONGEST:
            raise InputError(
                f"bounds of all orders of {count} tokens would take about {beam * count**2:,} passes; up to {LONGEST} "
                "tokens are taken: leave naopc out, or longer texts"
            )
        sums = _every_set(case, operator) if count <= exact else _beams(case, operator, beam)
        whole = float(case.scorer([case.whole])[0])
        case.memory[key] = (whole - sums[1] / count, whole - sums[0] / count)
    return case.memory[key]


def _every_set(case: Case, operator: Operator) -> tuple[float, float]:
    """(least, greatest) sum of answers along any order."""
    least: dict[Places, float] = {frozenset(): 0.0}
    greatest = dict(least)
    for size in range(1, len(case.movable) + 1):
        sets = [frozenset(one) for one in combinations(case.movable, size)]
        answers = case.scorer([case.without(sorted(one), operator) for one in sets])
        for one, answer in zip(sets, answers, strict=True):
            least[one] = float(answer) + min(least[one - {place}] for place in one)
            greatest[one] = float(answer) + max(greatest[one - {place}] for place in one)
    everything = frozenset(case.movable)
    return least[everything], greatest[everything]


def _beams(case: Case, operator: Operator, width: int) -> tuple[float, float]:
    """The same along the orders that stay among the best at every step; two orders of one set are one."""
    found = []
    for sign in (1, -1):
        beam: dict[Places, float] = {frozenset(): 0.0}
        for _ in case.movable:
            longer: dict[Places, float] = {}
            pairs = [(one, one | {place}) for one in beam for place in case.movable if place not in one]
            answers = case.scorer([case.without(sorted(after), operator) for _, after in pairs])
            for (before, after), answer in zip(pairs, answers, strict=True):
                total = beam[before] + sign * float(answer)
                longer[after] = min(total, longer.get(after, total))
            beam = dict(sorted(longer.items(), key=lambda item: (item[1], sorted(item[0])))[:width])
        found.append(sign * min(beam.values()))
    return found[0], found[1]
