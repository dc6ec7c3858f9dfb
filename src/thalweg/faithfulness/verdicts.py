"""What may be said of one metric: which methods lead, and where no difference was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.faithfulness.rankers import INVERSE
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.statistics import FEWEST, Mean, Pair
from thalweg.rates import LEVEL

GATE = 0.5  # correlation with the scores on shuffled weights, from which a method does not read the model

NAMED = 5  # methods that a sentence names


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the methods that it rests on.

    `leader` has the best mean; `equal` are those from which no difference to it was found; `like_random` those from
    which none to the random ranking was found. `differ` says whether any two methods differ; where none do,
    `like_random` stays empty. Of a gate, `failed` are those that do not pass it.
    """

    said: str
    leader: str | None = None
    equal: tuple[str, ...] = ()
    like_random: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    differ: bool = False


def judged(metric: Metric, means: Mapping[str, Mean], pairs: Sequence[Pair]) -> Verdict:
    """The verdict on the methods of one metric; inverses are shown, but do not compete."""
    if not any(one.count for one in means.values()):
        return Verdict("not defined for any of these inputs")
    known = [name for name, one in means.items() if one.count and competes(metric, name)]
    if not known:
        return Verdict("nothing competes: inverses, and what an agreement is measured with, are only shown")
    if metric.role == "gate":
        return _gated(means, known)
    sign = 1 if metric.direction == "higher" else -1
    leader = max(known, key=lambda name: sign * means[name].mean)
    rivals = [pair for pair in pairs if {pair.first, pair.second} <= set(known)]
    equal = _undecided(rivals, leader)
    differ = any(pair.differ for pair in rivals)
    like_random = _undecided(rivals, "random") if "random" in known and differ else ()
    return Verdict(
        _sentence(metric, known, leader, equal, rivals, len(pairs)), leader, equal, like_random, differ=differ
    )


def competes(metric: Metric, name: str) -> bool:
    """Inverses do not, nor does the baseline that an agreement is measured with: it would win by definition."""
    return not name.startswith(INVERSE) and name.split(":")[0] != metric.reference


def _undecided(pairs: Sequence[Pair], name: str) -> tuple[str, ...]:
    """The methods from which no difference to this one was found."""
    return tuple(_other(pair, name) for pair in pairs if name in (pair.first, pair.second) and not pair.differ)


def _other(pair: Pair, name: str) -> str:
    return pair.second if pair.first == name else pair.first


def _against(pair: Pair, name: str, metric: Metric) -> bool:
    """Whether this method is the worse of the two on the inputs that both have; its mean may rest on easier ones."""
    if name not in (pair.first, pair.second):
        return False
    gain = pair.difference.mean * (1 if pair.first == name else -1)
    return gain < 0 if metric.direction == "higher" else gain > 0


def _enough(pairs: Sequence[Pair], tests: int) -> bool:
    """Whether any difference could be found: n inputs give no p below 2^(1−n), which is corrected for all tests."""
    most = max((pair.difference.count for pair in pairs), default=0)
    return most >= FEWEST and 2.0 ** (1 - most) * tests < 1 - LEVEL


def _sentence(
    metric: Metric, known: list[str], leader: str, equal: tuple[str, ...], pairs: Sequence[Pair], tests: int
) -> str:
    best = {"higher": "highest", "lower": "lowest"}[metric.direction]
    label = "agreement, not truth: " if metric.role == "agreement" else ""
    if len(known) == 1:
        return f"{label}{leader} alone, nothing to compare it with"
    if not any(pair.differ for pair in pairs):
        said = f"{label}no difference found between any two of the {len(known)} methods"
        return said if _enough(pairs, tests) else f"{said}: so few inputs could not have shown any"
    ahead = [_other(pair, leader) for pair in pairs if pair.differ and _against(pair, leader, metric)]
    if ahead:
        return f"{label}{leader} has the {best} mean, but on the inputs that both have, {', '.join(ahead)} is better"
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
