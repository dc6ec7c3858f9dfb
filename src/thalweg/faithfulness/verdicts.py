"""What may be said of one metric: which methods lead, and where no difference was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.faithfulness.rankers import INVERSE
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.statistics import Mean, Pair

GATE = 0.5  # correlation with the scores on shuffled weights, from which a method does not read the model

NAMED = 5  # methods that a sentence names


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the methods that it rests on.

    `leader` has the best mean; `equal` are those from which no difference to it was found; `like_random` those from
    which none to the random ranking was found. Of a gate, `failed` are those that do not pass it.
    """

    said: str
    leader: str | None = None
    equal: tuple[str, ...] = ()
    like_random: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def judged(metric: Metric, means: Mapping[str, Mean], pairs: Sequence[Pair]) -> Verdict:
    """The verdict on the methods of one metric; inverses are shown, but do not compete."""
    known = [name for name, one in means.items() if one.count and not name.startswith(INVERSE)]
    if not known:
        return Verdict("not defined for any of these inputs")
    if metric.role == "gate":
        return _gated(means, known)
    sign = 1 if metric.direction == "higher" else -1
    leader = max(known, key=lambda name: sign * means[name].mean)
    rivals = [pair for pair in pairs if {pair.first, pair.second} <= set(known)]
    equal = _undecided(rivals, leader)
    like_random = _undecided(rivals, "random") if "random" in known else ()
    return Verdict(_sentence(metric, known, leader, equal, rivals), leader, equal, like_random)


def _undecided(pairs: Sequence[Pair], name: str) -> tuple[str, ...]:
    """The methods from which no difference to this one was found."""
    return tuple(
        pair.second if pair.first == name else pair.first
        for pair in pairs
        if name in (pair.first, pair.second) and not pair.differ
    )


def _sentence(metric: Metric, known: list[str], leader: str, equal: tuple[str, ...], pairs: Sequence[Pair]) -> str:
    best = {"higher": "highest", "lower": "lowest"}[metric.direction]
    label = "agreement, not truth: " if metric.role == "agreement" else ""
    if len(known) == 1:
        return f"{label}{leader} alone, nothing to compare it with"
    if not any(pair.differ for pair in pairs):
        return f"{label}no difference found between any two of the {len(known)} methods"
    if not equal:
        others = f"each of the {len(known) - 1} others" if len(known) > 2 else "the other"
        return f"{label}{leader} is {metric.direction} than {others}"
    named = ", ".join(equal) if len(equal) <= NAMED else f"{len(equal)} of the {len(known) - 1} others"
    return f"{label}{leader} has the {best} mean; no difference found from {named}"


def _gated(means: Mapping[str, Mean], known: list[str]) -> Verdict:
    failed = tuple(name for name in known if means[name].low >= GATE)
    open_ = [name for name in known if means[name].low < GATE <= means[name].high]
    said = "all pass" if not failed and not open_ else ""
    if failed:
        said = f"failed, nearly the same scores on shuffled weights: {', '.join(failed)}"
    if open_:
        said += ("; " if said else "") + f"not decided: {', '.join(open_)}"
    return Verdict(said, failed=failed)
