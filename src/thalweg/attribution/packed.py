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
    """The largest sources of the target in one sentence, by the first method that explains it."""
    first = next((entry for entry in packed if entry.explains(target)), None)
    if first is None:
        return "None of these methods explains this target."
    row = first.received(target)
    largest = np.argsort(-np.abs(row), kind="stable")[:HEADLINE_SOURCES]
    sources = ", ".join(f"{tokens.pieces[i]} ({row[i]:.2f})" for i in largest)
    name = target_name or " and ".join(f"‘{name_of(tokens, place)}’" for place in target)
    explained = f"the prediction ‘{prediction}’" if prediction else name
    return f"By {first.method}, {explained} comes mostly from {sources}."


def name_of(tokens: Tokens, position: int) -> str:
    return "all positions" if position == POOLED else tokens.pieces[position]
