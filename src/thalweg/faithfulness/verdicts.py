"""Verdicts: which methods lead by a metric, and where no difference was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.faithfulness.rankers import base_name, is_floor, is_inverse
from thalweg.faithfulness.registry import Metric
from thalweg.faithfulness.statistics import MIN_INPUTS, Mean, PairedTest
from thalweg.rates import LEVEL

GATE_CORRELATION = 0.5  # with the scores on shuffled weights; from here on a method does not read the model
MAX_NAMED_METHODS = 5  # in one sentence


@dataclass(frozen=True)
class Verdict:
    """One sentence about a metric, and the methods behind it.

    `leader` has the best mean. `tied` are the methods without a significant difference to it, `like_random` those
    without one to random scores (empty if no two methods differ). `failed` are the methods that do not pass a gate.
    `differ` says whether any two methods differ.
    """

    sentence: str
    leader: str | None = None
    tied: tuple[str, ...] = ()
    like_random: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    differ: bool = False


def judge(metric: Metric, means: Mapping[str, Mean], tests: Sequence[PairedTest]) -> Verdict:
    """Judge the methods by one metric. Inverses are shown, but do not compete."""
    if not any(mean.count for mean in means.values()):
        return Verdict("not defined for any of these inputs")
    rivals = [name for name, mean in means.items() if mean.count and competes(metric, name)]
    if not rivals:
        return Verdict("no competitors: inverses and the reference of an agreement are only shown")
    if metric.role == "gate":
        return _judge_gate(means, rivals)
    sign = 1 if metric.direction == "higher" else -1
    leader = max(rivals, key=lambda name: sign * means[name].mean)
    among_rivals = [test for test in tests if {test.first, test.second} <= set(rivals)]
    tied = _not_different_from(leader, among_rivals)
    differ = any(test.differ for test in among_rivals)
    floor = next((name for name in rivals if is_floor(name)), None)
    like_random = _not_different_from(floor, among_rivals) if floor and differ else ()
    sentence = _sentence(metric, rivals, leader, tied, among_rivals, len(tests))
    return Verdict(sentence, leader, tied, like_random, differ=differ)


def competes(metric: Metric, name: str) -> bool:
    """Whether a method competes: not an inverse, nor the reference of an agreement, which would win by definition."""
    return not is_inverse(name) and base_name(name) != metric.reference


def _not_different_from(name: str, tests: Sequence[PairedTest]) -> tuple[str, ...]:
    return tuple(_other(test, name) for test in tests if name in (test.first, test.second) and not test.differ)


def _other(test: PairedTest, name: str) -> str:
    return test.second if test.first == name else test.first


def _is_worse(name: str, test: PairedTest, metric: Metric) -> bool:
    """Whether a method is worse on the inputs that both have; its own mean may rest on easier ones."""
    if name not in (test.first, test.second):
        return False
    gain = test.difference.mean * (1 if test.first == name else -1)
    return gain < 0 if metric.direction == "higher" else gain > 0


def _enough_inputs(tests: Sequence[PairedTest], corrections: int) -> bool:
    """Whether a difference could have been found: n inputs give p ≥ 2^(1−n), multiplied by the number of tests."""
    most = max((test.difference.count for test in tests), default=0)
    return most >= MIN_INPUTS and 2.0 ** (1 - most) * corrections < 1 - LEVEL


def _sentence(
    metric: Metric,
    rivals: list[str],
    leader: str,
    tied: tuple[str, ...],
    tests: Sequence[PairedTest],
    corrections: int,
) -> str:
    best = {"higher": "highest", "lower": "lowest"}[metric.direction]
    label = "agreement, not truth: " if metric.role == "agreement" else ""
    if len(rivals) == 1:
        return f"{label}{leader} has no competitor"
    if not any(test.differ for test in tests):
        sentence = f"{label}no difference found between any two of the {len(rivals)} methods"
        return sentence if _enough_inputs(tests, corrections) else f"{sentence} (too few inputs to find one)"
    ahead = [_other(test, leader) for test in tests if test.differ and _is_worse(leader, test, metric)]
    if ahead:
        return f"{label}{leader} has the {best} mean, but {', '.join(ahead)} is better on the inputs that both have"
    if not tied:
        others = f"each of the {len(rivals) - 1} others" if len(rivals) > 2 else "the other"
        return f"{label}{leader} is {metric.direction} than {others}"
    named = ", ".join(tied) if len(tied) <= MAX_NAMED_METHODS else f"{len(tied)} of the {len(rivals) - 1} others"
    return f"{label}{leader} has the {best} mean; no difference found from {named}"


def _judge_gate(means: Mapping[str, Mean], rivals: list[str]) -> Verdict:
    failed = tuple(name for name in rivals if means[name].low >= GATE_CORRELATION)
    undecided = [name for name in rivals if means[name].low < GATE_CORRELATION <= means[name].high]
    parts = []
    if failed:
        parts.append(f"failed, nearly the same scores on shuffled weights: {', '.join(failed)}")
    if undecided:
        parts.append(f"undecided: {', '.join(undecided)}")
    return Verdict("; ".join(parts) or "all pass", failed=failed)
