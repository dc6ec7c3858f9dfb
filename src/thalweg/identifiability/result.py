"""Certificates: whether the attention of every head is uniquely determined for one input."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from thalweg.identifiability.head_result import Alternatives, Intervals
from thalweg.indices import check_index
from thalweg.jsonable import jsonable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

Verdict = Literal["identifiable", "locally unique given the keys", "not identifiable"]
VERDICTS: tuple[Verdict, ...] = ("identifiable", "locally unique given the keys", "not identifiable")


def share(part: int, whole: int) -> str:
    """A share as a percentage that reads 0% or 100% only if it is exactly that.

    >>> share(999, 1000), share(9999, 10000), share(0, 10), share(10, 10), share(1, 10000)
    ('99.9%', '> 99.9%', '0%', '100%', '< 0.1%')
    """
    if part in (0, whole):
        return "100%" if part else "0%"
    percent = 100 * part / whole
    return "< 0.1%" if percent < 0.1 else "> 99.9%" if percent > 99.9 else f"{percent:.1f}%"


@dataclass(frozen=True)
class Received:
    """Share of a head's attention that one kind of token receives: raw, effective, effective with row sums kept."""

    raw: float
    effective: float
    effective_row_sum: float


@dataclass(frozen=True)
class Head:
    """Identifiability figures of one head for one input.

    - `rank` of T = V·W_O and `rank_with_ones` of [T, 1], for the row with the most visible keys; `singular_values`
      are relative to the largest. Values up to `cut` count as zero; `gap` is the ratio of the values on its two sides.
    - `null_dimension`: dimension of the left null space of T. `ambiguity`: dimension of the distributions that give
      the same output. Both are maxima over rows; `row_ambiguity` has every row, because rows of causal and windowed
      heads see different keys.
    - `ambiguity_given_keys`: the same when a row must be a softmax of the head's own keys, for small query
      perturbations; None if the keys were not captured. `ambiguity_keys_free`: the same for the whole head when
      queries and keys are both free, counted for a head in general position; None if queries see different keys.
    - `margin_given_keys`: how much a unit move of attention that the query can cause changes the output at least,
      relative to the cut; the median over those of the `rows_sampled` rows that values leave open, None if there are
      none. A row is locally unique above one. Unlike a verdict, a median does not fall because a text has more rows.
    - `movable`: mass that can move to other keys without changing the head's output: total variation to a witness, a
      distribution with the same output, which makes it a lower bound in each row. The mean over `rows_sampled` evenly
      spaced rows (all rows of a short text); `movable_most` is their largest. Heads are ranked by it.
    - `null_share`: norm of the part of attention without effect, relative to attention's norm; `null_share_row_sum`:
      the same for the part that can be removed while rows still sum to one. `pearson` and `spearman` compare raw
      attention with the effective attention of Brunner et al.: over all weights, and as a mean over rows.
    - `longest`: upper bound on the number of visible tokens for which this head can be identifiable.
    - `received`: shares of attention by kind of token, as in `Tokens.kinds`.
    """

    layer: int
    head: int
    verdict: Verdict
    queries: int
    keys: int
    key_size: int | None
    value_size: int
    rank: int
    rank_with_ones: int
    singular_values: tuple[float, ...]
    cut: float
    gap: float
    null_dimension: int
    ambiguity: int
    row_ambiguity: tuple[int, ...]
    rows_determined: int
    ambiguity_given_keys: int | None
    rows_determined_given_keys: int | None
    ambiguity_keys_free: int | None
    margin_given_keys: float | None
    movable: float
    movable_most: float
    rows_sampled: int
    null_share: float
    null_share_row_sum: float
    pearson: float
    spearman: float
    effective_row_sums: tuple[float, float]
    longest: int
    received: Mapping[str, Received]

    @property
    def name(self) -> str:
        return f"layer {self.layer} head {self.head}"

    @property
    def determined(self) -> bool:
        """Whether no other distribution gives the same output, in any row."""
        return self.verdict == "identifiable"

    @property
    def margin(self) -> float:
        """The smallest singular value of T that counts, relative to the cut; zero if none counts."""
        return min((size for size in self.singular_values if size > self.cut), default=0.0) / self.cut

    def row_counts(self) -> dict[Verdict, int]:
        """Number of rows with each verdict; without captured keys no row is locally unique."""
        unique = self.rows_determined
        at_least_locally = unique if self.rows_determined_given_keys is None else self.rows_determined_given_keys
        return dict(zip(VERDICTS, (unique, at_least_locally - unique, self.queries - at_least_locally), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """All figures and the sentence, ready for JSON."""
        return jsonable(
            {**asdict(self), "margin": self.margin, "row_counts": self.row_counts(), "sentence": self.sentence()}
        )

    def sentence(self) -> str:
        """The verdict in words."""
        if self.determined:
            return (
                f"{self.name}: attention is uniquely determined by the head's output (possible up to {self.longest} "
                "visible tokens)"
            )
        open_rows = (
            f"{self.name}: {self.queries - self.rows_determined} of {self.queries} rows are not uniquely determined "
            f"(up to {self.ambiguity} free dimensions)"
        )
        size = (
            f"on average at least {self.movable:.0%} of a row's attention can move to other tokens without any effect"
        )
        if self.verdict == "locally unique given the keys":
            return f"{open_rows}, but all are locally unique given the keys (small query perturbations); {size}"
        if self.rows_determined_given_keys is None:
            return f"{open_rows}; its keys were not captured, so they cannot narrow this down; {size}"
        left = self.queries - self.rows_determined_given_keys
        return f"{open_rows}, {left} of them not even locally unique given the keys; {size}"


@dataclass(frozen=True)
class Layer:
    """Free dimensions of the heads of one layer, at the position with the most visible keys.

    `ambiguity_apart` is the sum over heads when the output of each head is known; `ambiguity_together` is the dimension
    in which the rows of all heads can change at once when only the layer's output is known.
    """

    layer: int
    heads: int
    heads_added: bool
    narrow: bool  # the heads' outputs have more dimensions than the layer's
    ambiguity_apart: int
    ambiguity_together: int

    @property
    def separable(self) -> bool:
        """Whether the layer's output determines its heads as well as their own outputs do."""
        return self.ambiguity_together == self.ambiguity_apart

    def sentence(self) -> str:
        """The limit in words."""
        if self.separable:
            return f"layer {self.layer}: its output determines the outputs of its heads"
        lost = self.ambiguity_together - self.ambiguity_apart
        reason = (
            "its heads are added"
            if self.heads_added
            else "its projection is narrower than its heads"
            if self.narrow
            else "its projection is nearly singular"
        )
        return (
            f"layer {self.layer}: {reason}, so its output does not determine the outputs of its heads. Given the "
            f"layer's output alone, the rows of all {self.heads} heads at one position have {self.ambiguity_together} "
            f"free dimensions, {lost} more than given the output of each head"
        )


@dataclass(frozen=True, eq=False)
class Certificate:
    """Identifiability figures and verdicts of all heads for one input.

    `example` is a different attention map of the most misleading head, verified by running the model with it; None
    if attention is determined everywhere, and in certificates of corpora.
    """

    heads: tuple[Head, ...]
    layers: tuple[Layer, ...]
    blocks: tuple[str, ...]
    tokens: Tokens
    receipt: Receipt
    provenance: Mapping[str, str]
    example: Alternatives | None = None

    def counts(self) -> dict[Verdict, int]:
        """Number of heads with each verdict."""
        return {verdict: sum(head.verdict == verdict for head in self.heads) for verdict in VERDICTS}

    def row_counts(self) -> dict[Verdict, int]:
        """Number of rows of all heads with each verdict."""
        counts = [head.row_counts() for head in self.heads]
        return {verdict: sum(count[verdict] for count in counts) for verdict in VERDICTS}

    def head(self, layer: int, head: int) -> Head:
        """The figures of one head; negative layers count from the top."""
        layer = check_index("layer", layer, len(self.blocks), negative=True)
        heads = [entry for entry in self.heads if entry.layer == layer]
        return heads[check_index("head", head, len(heads))]

    def most_misleading(self, count: int = 5) -> tuple[Head, ...]:
        """The heads whose attention can move most without any effect (`Head.movable`), largest first."""
        ambiguous = [head for head in self.heads if not head.determined]
        return tuple(sorted(ambiguous, key=lambda head: -head.movable)[:count])

    def summary(self) -> str:
        """The verdicts on all heads in a few sentences."""
        counts, longest = self.counts(), {head.longest for head in self.heads}
        sentences = [
            f"{counts['identifiable']} of {len(self.heads)} heads have uniquely determined attention at "
            f"{len(self.tokens)} tokens."
        ]
        if partly := counts["locally unique given the keys"]:
            sentences.append(f"Another {partly} are locally unique given their keys (small query perturbations).")
        if rest := counts["not identifiable"]:
            sentences.append(f"The remaining {rest} are not identifiable.")
        if not all(head.determined for head in self.heads):
            sentences.append(self._rows_sentence())
        limit = " to ".join(str(bound) for bound in sorted({min(longest), max(longest)}))
        return " ".join([*sentences, f"Attention can be uniquely determined for at most {limit} visible tokens."])

    def _rows_sentence(self) -> str:
        """The verdicts on rows: a head counts by its worst row, so heads alone look worse the longer the text."""
        unique, local, _ = self.row_counts().values()
        rows = sum(head.queries for head in self.heads)
        return (
            f"Row by row, {share(unique, rows)} of {rows:,} rows have uniquely determined attention, and another "
            f"{share(local, rows)} are locally unique given their keys."
        )

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from thalweg.identifiability.view import page

        return page(self)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: verdicts and the mass that can move, by layer and head."""
        from thalweg.identifiability.view import certificate_figure

        return certificate_figure(self)

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import certificate_text

        return certificate_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "tokens": list(self.tokens.pieces),
            "summary": self.summary(),
            "counts": dict(self.counts()),
            "row_counts": dict(self.row_counts()),
            "most_misleading": [{"layer": head.layer, "head": head.head} for head in self.most_misleading()],
            "blocks": list(self.blocks),
            "heads": [head.to_dict() for head in self.heads],
            "layers": [{**asdict(layer), "separable": layer.separable} for layer in self.layers],
            "example": None if self.example is None else self.example.to_dict(),
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }


@dataclass(frozen=True, eq=False)
class HeadReport:
    """The certificate of one head, the intervals of its largest weights, and alternatives."""

    head: Head
    intervals: Intervals
    alternatives: Alternatives

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import head_report_text

        return head_report_text(self)

    def to_html(self) -> str:
        """A self-contained HTML page: the head's alternative attention with the intervals of its weights."""
        from thalweg.identifiability.alternatives_view import page

        return page(self.alternatives, self.intervals, self.head.sentence())

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: original and alternative attention side by side, with the same output."""
        from thalweg.identifiability.alternatives_view import alternatives_figure

        return alternatives_figure(self.alternatives, self.intervals)

    def to_dict(self) -> dict[str, Any]:
        """All three, ready for JSON."""
        return {
            "head": self.head.to_dict(),
            "intervals": self.intervals.to_dict(),
            "alternatives": self.alternatives.to_dict(),
        }
