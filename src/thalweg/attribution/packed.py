"""Attributions in few bytes, as a page holds them: of long texts only the largest entries are kept."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.attribution.result import Attribution
from thalweg.drawing.packed import Packed, pack
from thalweg.drawing.payload import Arrays, describe_receipt
from thalweg.methods.registry import Chain, list_methods
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

LINK_BYTES = 2_000_000  # for the per-layer maps of each method
SCORE_BYTES = 1_000_000  # for the scores of each method
POOLED = -1  # the target that stands for a prediction read from all positions
HEADLINE_SOURCES = 3


@dataclass(frozen=True, eq=False)
class PackedAttribution:
    """The scores [target source] of one method, and the per-layer maps they were made from, if there are any.

    `targets` are positions, or `POOLED`. `layers` are rows [layer · token] over sources; `chain` says how they
    combine into the scores.
    """

    method: str
    params: Mapping[str, Any]
    targets: tuple[int, ...]
    scores: Packed
    layers: Packed | None
    chain: Chain | None
    receipt: Receipt
    row_sum_error: float

    def received(self, targets: Sequence[int]) -> Float[np.ndarray, " source"]:
        """The mean row of these targets, as the page shows it for a word of several tokens."""
        return self.scores.unpacked()[[self.targets.index(place) for place in targets]].mean(0)

    def explains(self, targets: Iterable[int]) -> bool:
        """Whether there is a row for each of these targets."""
        return set(targets) <= set(self.targets)


def pack_attribution(attribution: Attribution, targets: Sequence[int]) -> PackedAttribution:
    """Pack an attribution whose rows belong to these positions."""
    count = len(attribution.sources)
    keep = SCORE_BYTES // (4 * max(1, len(targets)))  # two bytes for a score, two for its place
    dense = 2 * count * len(targets) <= SCORE_BYTES
    layers = None
    if attribution.chain is not None and attribution.per_layer is not None:
        flat = attribution.per_layer.reshape(-1, count)
        layers = pack(flat, keep=None if flat.size <= LINK_BYTES else max(1, LINK_BYTES // (3 * len(flat))))
    return PackedAttribution(
        method=attribution.method,
        params=dict(attribution.params),
        targets=tuple(targets),
        scores=pack(attribution.scores, np.uint16, None if dense else max(1, keep)),
        layers=layers,
        chain=attribution.chain,
        receipt=attribution.receipt,
        row_sum_error=attribution.row_sum_error,
    )


def positions_of(attribution: Attribution) -> tuple[int, ...]:
    """Where the targets stand among the sources; `POOLED` for a target that is no source."""
    sources, targets = attribution.sources, attribution.targets
    if targets == sources:
        return tuple(range(len(sources)))
    columns = [zip(part.pieces, part.spans, part.segments, part.ids, strict=True) for part in (sources, targets)]
    whole, places, start = list(columns[0]), [], 0
    for token in columns[1]:
        place = next((i for i in [*range(start, len(whole)), *range(start)] if whole[i] == token), POOLED)
        places.append(place)
        start = place + 1
    return tuple(places)


def describe(packed: PackedAttribution, arrays: Arrays) -> dict[str, Any]:
    """A packed attribution as a page reads it."""
    known = list_methods().get(packed.method)  # a saved result may come from a method that is not installed here
    return {
        "name": packed.method,
        "summary": known.summary if known else "",
        "params": {name: str(value) for name, value in packed.params.items()},
        "targets": list(packed.targets),
        "scores": arrays.packed(packed.scores),
        "signed": bool((packed.scores.codes < 0).any()),
        "layers": arrays.packed(packed.layers),
        "chain": packed.chain,
        "receipt": describe_receipt(packed.receipt, packed.row_sum_error),
    }


def headline(
    packed: Iterable[PackedAttribution],
    tokens: Tokens,
    target: Sequence[int],
    prediction: str | None,
    target_name: str | None = None,
) -> str:
    """Which tokens the target comes from, in a sentence, by the first method that explains it."""
    first = next((entry for entry in packed if entry.explains(target)), None)
    if first is None:
        return "None of these methods explains this target."
    row = first.received(target)
    best = np.argsort(-np.abs(row), kind="stable")[:HEADLINE_SOURCES]
    sources = ", ".join(f"{tokens.pieces[i]} ({row[i]:.2f})" for i in best)
    named = target_name or " and ".join(f"‘{name_of(tokens, place)}’" for place in target)
    what = f"the prediction ‘{prediction}’" if prediction else named
    return f"By {first.method}, {what} comes most from {sources}."


def name_of(tokens: Tokens, position: int) -> str:
    return "all positions" if position == POOLED else tokens.pieces[position]
