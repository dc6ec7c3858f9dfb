"""All that one page shows of one pass: explanations, maps of heads, the certificate, mixing and receipts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from thalweg.results.attribution import Attribution
from thalweg.results.mixing import Mixing
from thalweg.results.packed import Packed, pack
from thalweg.results.receipt import Receipt
from thalweg.results.trust import Certificate, Intervals
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What a page may hold before things are left out, and said to be.
LINK_BYTES = 2_000_000  # maps of layers, of each method
SCORE_BYTES = 1_000_000  # scores, of each method
HEAD_CELLS = 2_000_000  # cells of all heads' maps

POOLED = -1  # the target that stands for a prediction read from all positions
Chain = Literal["product", "flow"]


@dataclass(frozen=True, eq=False)
class Explained:
    """One method's scores [target source], and the maps of single layers that they were made from, if there are.

    `targets` are positions, or `POOLED`. `layers` are rows [layer · token] over sources; `chain` says how they make
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

    def received(self, targets: tuple[int, ...]) -> Float[np.ndarray, " source"]:
        """What these targets get on average, as the page shows it for a word of several tokens."""
        return self.scores.unpacked()[[self.targets.index(place) for place in targets]].mean(0)


@dataclass(frozen=True, eq=False)
class HeadMap:
    """Attention of a block's heads and, where it was computed, its part without effect: rows [head · query] over keys.

    A cell stands for `cell` × `cell` tokens and holds the entry of the largest size. `queries` and `keys` are the
    positions at which the block's begin.
    """

    layer: int
    heads: int
    queries: int
    keys: int
    cell: int
    weights: Packed
    null: Packed | None


@dataclass(frozen=True, eq=False)
class Report:
    """What a page shows.

    `target` is what it opens with, `words` whether it opens with words. `prompt` is the number of tokens that were
    given, if the model wrote the others; `outputs` what the model says at each position, if it speaks at each.
    """

    tokens: Tokens
    target: tuple[int, ...]
    prediction: str | None
    explained: tuple[Explained, ...]
    provenance: Mapping[str, str]
    blocks: tuple[tuple[str, str], ...] = ()  # names and roles
    certificate: Certificate | None = None
    heads: tuple[HeadMap, ...] = ()
    intervals: tuple[Intervals, ...] = ()
    mixing: Mixing | None = None
    prompt: int | None = None
    outputs: tuple[str, ...] = ()
    words: bool = False
    left_out: tuple[str, ...] = ()

    def headline(self) -> str:
        """The answer in a sentence or two."""
        said = []
        if self.explained:
            first = next((one for one in self.explained if set(self.target) <= set(one.targets)), None)
            if first is None:
                said.append("No method that was asked for explains this target.")
            else:
                row = first.received(self.target)
                best = np.argsort(-np.abs(row), kind="stable")[:3]
                given = ", ".join(f"{self.tokens.pieces[i]} ({row[i]:.2f})" for i in best)
                named = " and ".join(f"‘{self._name(place)}’" for place in self.target)
                what = f"the prediction ‘{self.prediction}’" if self.prediction else named
                said.append(f"By {first.method}, {what} comes most from {given}.")
        if self.certificate is not None:
            counts, total = self.certificate.counts(), len(self.certificate.heads)
            said.append(f"Attention itself can be read in {counts['identifiable']} of {total} heads.")
        return " ".join(said)

    def _name(self, position: int) -> str:
        if position == POOLED:
            return "all positions"
        written = self.prompt is not None and self.prompt <= position + 1 < len(self.tokens)
        return self.tokens.pieces[position + 1 if written else position]

    def to_html(self) -> str:
        """One page that stands alone: no network, opens from disk."""
        from thalweg.views.page import page

        return page(self)

    def _repr_html_(self) -> str:
        from thalweg.views.page import frame

        return frame(self)

    def plot(self) -> "Figure":
        """A matplotlib figure: the methods over the tokens, for what the page opens with."""
        from thalweg.views.plots import plot

        return plot(self)

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        from thalweg.files import draft_of

        path = Path(path)
        with draft_of(path) as draft:
            Path(draft).write_text(self.to_html(), encoding="utf-8")


def explained(found: Attribution, targets: Sequence[int]) -> Explained:
    """An attribution as a page keeps it: in few bytes, and of long texts the largest entries."""
    count = len(found.sources)
    keep = SCORE_BYTES // (4 * max(1, len(targets)))  # two bytes for a score, two for its place
    dense = 2 * count * len(targets) <= SCORE_BYTES
    chain, layers = chain_of(found), None
    if chain is not None and found.per_layer is not None:
        flat = found.per_layer.reshape(-1, count)
        layers = pack(flat, keep=None if flat.size <= LINK_BYTES else max(1, LINK_BYTES // (3 * len(flat))))
    return Explained(
        method=found.method,
        params=dict(found.params),
        targets=tuple(targets),
        scores=pack(found.scores, np.uint16, None if dense else max(1, keep)),
        layers=layers,
        chain=chain,
        receipt=found.receipt,
        row_sum_error=found.row_sum_error,
    )


def of_attributions(found: Sequence[Attribution]) -> Report:
    """A page about results that are there already, of the same targets."""
    first = found[0]
    targets = _positions(first)
    return Report(
        tokens=first.sources,
        target=targets[:1],
        prediction=first.prediction,
        explained=tuple(explained(one, targets) for one in found),
        provenance=dict(first.provenance),
        left_out=("heads, their certificate and mixing: thalweg report shows them",),
    )


def of_certificate(certificate: Certificate) -> Report:
    """A page about a certificate alone."""
    return Report(
        tokens=certificate.tokens,
        target=(),
        prediction=None,
        explained=(),
        provenance=dict(certificate.provenance),
        certificate=certificate,
        left_out=("explanations and maps of heads: thalweg report shows them",),
    )


def chain_of(found: Attribution) -> Chain | None:
    """How the maps of single layers make the scores; None where there are no such maps."""
    if found.per_layer is None or found.per_layer.shape[1:] != (len(found.sources),) * 2:
        return None
    if "start" in found.params or len(found.per_layer) < 2 or found.params.get("receptive_field"):
        return None  # maps that begin at the embeddings, or a single layer, or scores that are relative to others
    return "flow" if found.method == "attention_flow" else "product"


def _positions(found: Attribution) -> tuple[int, ...]:
    """Where targets stand among the sources; a target that is no source stands for all."""
    sources, targets = found.sources, found.targets
    if targets == sources:
        return tuple(range(len(sources)))
    whole = list(zip(sources.pieces, sources.spans, sources.segments, sources.ids, strict=True))
    places, start = [], 0
    for one in zip(targets.pieces, targets.spans, targets.segments, targets.ids, strict=True):
        place = next((i for i in [*range(start, len(whole)), *range(start)] if whole[i] == one), POOLED)
        places.append(place)
        start = place + 1
    return tuple(places)
