"""Attributions packed into few bytes for HTML pages; long texts keep their largest entries only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.attribution.result import POOLED, Attribution
from thalweg.drawing.packed import Packed, pack
from thalweg.drawing.payload import Arrays, describe_receipt
from thalweg.methods.registry import Chain, list_methods
from thalweg.models.prediction import Outcome, Prediction, percent
from thalweg.printable import printable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

MAX_LINK_BYTES = 2_000_000  # of the per-layer maps of each method
MAX_SCORE_BYTES = 1_000_000  # of the scores of each method
HEADLINE_SOURCES = 3


@dataclass(frozen=True, eq=False)
class PackedAttribution:
    """Packed scores [target source] of one method, with the per-layer maps behind them if it has any.

    `targets` are positions, or `POOLED`. `layers` are rows [layer · token] over sources, which `chain` combines into
    the scores.
    """

    method: str
    params: Mapping[str, Any]
    targets: tuple[int, ...]
    scores: Packed
    layers: Packed | None
    chain: Chain | None
    receipt: Receipt
    row_sum_error: float
    explained: Outcome | None = None  # if the target is where the prediction is read
    foil: Outcome | None = None

    def received(self, targets: Sequence[int]) -> Float[np.ndarray, " source"]:
        """The mean row of these targets: a page shows it for a word of several tokens."""
        return self.scores.unpacked()[[self.targets.index(place) for place in targets]].mean(0)

    def explains(self, targets: Iterable[int]) -> bool:
        """Whether there is a row for each of these targets."""
        return set(targets) <= set(self.targets)


def pack_attribution(attribution: Attribution) -> PackedAttribution:
    """Pack the scores and per-layer maps of an attribution."""
    count, targets = len(attribution.sources), attribution.positions
    keep = MAX_SCORE_BYTES // (4 * max(1, len(targets)))  # two bytes for a score, two for its column
    dense = 2 * count * len(targets) <= MAX_SCORE_BYTES
    layers = None
    if attribution.chain is not None and attribution.per_layer is not None:
        flat = attribution.per_layer.reshape(-1, count)
        layers = pack(flat, keep=None if flat.size <= MAX_LINK_BYTES else max(1, MAX_LINK_BYTES // (3 * len(flat))))
    return PackedAttribution(
        method=attribution.method,
        params=dict(attribution.params),
        targets=targets,
        scores=pack(attribution.scores, np.uint16, None if dense else max(1, keep)),
        layers=layers,
        chain=attribution.chain,
        receipt=attribution.receipt,
        row_sum_error=attribution.row_sum_error,
        explained=attribution.explained,
        foil=attribution.foil,
    )


def describe(packed: PackedAttribution, arrays: Arrays) -> dict[str, Any]:
    """A packed attribution as a page reads it."""
    known = list_methods().get(packed.method)  # None if a saved result comes from a method that is not installed
    return {
        "name": packed.method,
        "summary": known.summary if known else "",
        "params": {name: str(value) for name, value in packed.params.items()},
        "targets": list(packed.targets),
        "scores": arrays.packed(packed.scores),
        "signed": bool((packed.scores.codes < 0).any()),
        "explained": None if packed.explained is None else describe_outcome(packed.explained),
        "foil": None if packed.foil is None else describe_outcome(packed.foil),
        "layers": arrays.packed(packed.layers),
        "chain": packed.chain,
        "receipt": describe_receipt(packed.receipt, packed.row_sum_error),
    }


def describe_answer(answer: Prediction | None) -> list[dict[str, Any]]:
    """A prediction as a page reads it: its outcomes, the most probable first."""
    return [] if answer is None else [describe_outcome(outcome) for outcome in answer.outcomes]


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    chance = None if outcome.probability is None else percent(outcome.probability)
    return {"name": printable(outcome.name), "chance": chance, "probability": outcome.probability}


def headline(
    packed: Iterable[PackedAttribution],
    tokens: Tokens,
    target: Sequence[int],
    answer: Prediction | None,
    target_name: str | None = None,
) -> str:
    """The model's answer, and the largest sources of the target by the first method that explains it."""
    sentences = [] if answer is None else [f"The prediction is ‘{answer.name}’{_chance(answer.outcomes[0])}."]
    first = next((entry for entry in packed if entry.explains(target)), None)
    if first is None:
        return " ".join([*sentences, "None of these methods explains this target."])
    row, labels = first.received(target), tokens.labels()
    name = target_name or " and ".join(f"‘{name_of(tokens, place)}’" for place in target)
    if (row < 0).any():
        explained = first.explained or (answer.outcomes[0] if answer else None)
        name = name if explained is None else f"‘{explained.name}’"
        name += _chance(explained) if explained and answer and explained != answer.outcomes[0] else ""
        name += "" if first.foil is None else f" rather than ‘{first.foil.name}’{_chance(first.foil)}"
        return " ".join([*sentences, f"By {first.method}, {evidence(row, labels, name)}."])
    explained = name if answer is None else "it"
    return " ".join([*sentences, f"By {first.method}, {explained} comes mostly from {_listed(row, labels, row)}."])


def evidence(row: Float[np.ndarray, " source"], labels: Sequence[str], name: str) -> str:
    """What speaks for an output and what against it, by signed scores."""
    sides = ((f"for {name}", np.maximum(row, 0)), ("against it", np.minimum(row, 0)))
    return "; ".join(f"{side}: {_listed(row, labels, size) or 'nothing'}" for side, size in sides)


def _listed(row: Float[np.ndarray, " source"], labels: Sequence[str], size: Float[np.ndarray, " source"]) -> str:
    """The largest entries by `size`, with their scores."""
    largest = [i for i in np.argsort(-np.abs(size), kind="stable")[:HEADLINE_SOURCES] if size[i]]
    return ", ".join(f"{labels[i]} ({row[i]:.2f})" for i in largest)


def _chance(outcome: Outcome) -> str:
    return "" if outcome.probability is None else f" ({percent(outcome.probability)})"


def name_of(tokens: Tokens, position: int) -> str:
    return "all positions" if position == POOLED else tokens.pieces[position]
