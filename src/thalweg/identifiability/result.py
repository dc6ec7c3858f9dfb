"""How far attention can be believed: certificates of heads, intervals of weights, alternatives with the same output."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from thalweg.errors import InputError
from thalweg.jsonable import jsonable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

Verdict = Literal["identifiable", "identifiable given the keys", "not identifiable"]
VERDICTS: tuple[Verdict, ...] = ("identifiable", "identifiable given the keys", "not identifiable")


@dataclass(frozen=True)
class Received:
    """The share of a head's attention that goes to some tokens: as it is, and without what has no effect."""

    raw: float
    effective: float
    effective_row_sum: float


@dataclass(frozen=True)
class Head:
    """What is known of one head's attention for one input.

    - `rank` of T = V·W_O and `rank_with_ones` of [T, 1], for the row that sees most keys; `singular_values` relative
      to the largest; those up to `cut` count as zero, and `gap` says how clear that is.
    - `null_dimension`: of the left null space of T. `ambiguity`: dimension in which a row can move and stay a
      distribution with the same output; any distribution is allowed. Both of the row where they are largest;
      `row_ambiguity` is that of every row, since rows of causal and windowed heads see different keys.
    - `ambiguity_given_keys`: what is left of it when a row must be a softmax of the head's own keys, for small
      changes of the query; None where keys were not seen. `ambiguity_keys_free`: when queries and keys may both be
      anything, counted for a head in general position; None where queries see different keys.
    - `null_share`: norm of the part of attention without effect, relative to attention's; with `_row_sum` of the
      part that could be missing while rows still sum to one. `pearson` and `spearman` between raw attention and
      Brunner et al.'s effective one: over all weights, and of the order within rows, averaged.
    - `longest`: a bound on the number of visible tokens at which this head's weights can be determined outright.
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

    def to_dict(self) -> dict[str, Any]:
        """All figures and the sentence, ready for JSON."""
        return jsonable({**asdict(self), "sentence": self.sentence()})

    def sentence(self) -> str:
        """The verdict in plain language."""
        if self.determined:
            return (
                f"{self.name}: no other attention gives this head's output; its weights can be read (that can hold for "
                f"{self.longest} visible tokens at most)"
            )
        first = (
            f"{self.name}: {self.queries - self.rows_determined} of {self.queries} rows are not determined by their "
            f"output, which leaves up to {self.ambiguity} dimensions free"
        )
        size = f"{self.null_share_row_sum:.0%} of its attention, by norm, has no effect"
        if self.verdict == "identifiable given the keys":
            return f"{first}, but none as a softmax of its own keys, for small changes of the query; {size}"
        if self.rows_determined_given_keys is None:
            return f"{first}; its keys were not seen, so nothing narrows that down; {size}"
        left = self.queries - self.rows_determined_given_keys
        return f"{first}, {left} of them even as a softmax of its own keys; {size}"


@dataclass(frozen=True)
class Layer:
    """What the heads of one layer leave open, at the position that sees most keys.

    `ambiguity_apart` adds up what each head leaves open when its own output is known; `ambiguity_together` is the
    dimension in which all of them can change at once when only the layer's output is.
    """

    layer: int
    heads: int
    heads_added: bool
    narrow: bool  # the heads' outputs have more dimensions than the layer's
    ambiguity_apart: int
    ambiguity_together: int

    @property
    def separable(self) -> bool:
        """Whether the layer's output says no less about its heads than their own outputs do."""
        return self.ambiguity_together == self.ambiguity_apart

    def sentence(self) -> str:
        """The limit in plain language."""
        if self.separable:
            return f"layer {self.layer}: its output tells the outputs of its heads apart"
        lost = self.ambiguity_together - self.ambiguity_apart
        why = (
            "its heads are added"
            if self.heads_added
            else "its projection is narrower than its heads"
            if self.narrow
            else "its projection is nearly singular"
        )
        return (
            f"layer {self.layer}: {why}, and its output does not show all that they wrote. With it alone, a position's "
            f"rows of all {self.heads} heads have {self.ambiguity_together} free dimensions together, {lost} more than "
            "with the heads' own outputs"
        )


@dataclass(frozen=True, eq=False)
class Certificate:
    """Which heads can be read for this input, and which mislead."""

    heads: tuple[Head, ...]
    layers: tuple[Layer, ...]
    blocks: tuple[str, ...]
    tokens: Tokens
    receipt: Receipt
    provenance: Mapping[str, str]

    def counts(self) -> dict[Verdict, int]:
        """How many heads have each verdict."""
        return {verdict: sum(one.verdict == verdict for one in self.heads) for verdict in VERDICTS}

    def head(self, layer: int, head: int) -> Head:
        """One head's figures; negative layers count from the top."""
        if not -len(self.blocks) <= layer < len(self.blocks):
            raise InputError(f"layer {layer} was asked for, expected 0 to {len(self.blocks) - 1}")
        heads = [one for one in self.heads if one.layer == layer % len(self.blocks)]
        if not 0 <= head < len(heads):
            raise InputError(f"head {head} was asked for, expected 0 to {len(heads) - 1}")
        return heads[head]

    def most_misleading(self, count: int = 5) -> tuple[Head, ...]:
        """The heads with the largest share of attention that has no effect, largest first."""
        unsure = [one for one in self.heads if not one.determined]
        return tuple(sorted(unsure, key=lambda one: -one.null_share_row_sum)[:count])

    def summary(self) -> str:
        """The whole model in three sentences."""
        counts, total = self.counts(), len(self.heads)
        longest = [one.longest for one in self.heads]
        span = f"{min(longest)}" if min(longest) == max(longest) else f"{min(longest)} to {max(longest)}"
        return (
            f"{counts['identifiable']} of {total} heads can be read at {len(self.tokens)} tokens, because no other "
            f"attention gives their output. {counts['identifiable given the keys']} more can be read if their keys are "
            f"taken as given and only small changes of the query are thought of. {counts['not identifiable']} cannot. "
            f"Weights can be determined outright for {span} visible tokens at most."
        )

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from thalweg.identifiability.view import page

        return page(self)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: verdicts and the share without effect, by layer and head."""
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
            "most_misleading": [{"layer": one.layer, "head": one.head} for one in self.most_misleading()],
            "blocks": list(self.blocks),
            "heads": [one.to_dict() for one in self.heads],
            "layers": [{**asdict(one), "separable": one.separable} for one in self.layers],
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }


@dataclass(frozen=True, eq=False)
class Intervals:
    """For some weights of one head, the smallest and largest value with the same head output: [entry] each.

    `targets` and `sources` are positions of `tokens`. `statuses` counts the solver's answers; "unique" needed none.
    """

    layer: int
    head: int
    tokens: Tokens
    targets: Int[np.ndarray, " entry"]
    sources: Int[np.ndarray, " entry"]
    weights: Float[np.ndarray, " entry"]
    low: Float[np.ndarray, " entry"]
    high: Float[np.ndarray, " entry"]
    statuses: Mapping[str, int]
    receipt: Receipt
    provenance: Mapping[str, str]

    @property
    def widths(self) -> Float[np.ndarray, " entry"]:
        return self.high - self.low

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import intervals_text

        return intervals_text(self)

    def to_dict(self) -> dict[str, Any]:
        """One entry per weight, ready for JSON."""
        columns = zip(self.targets, self.sources, self.weights, self.low, self.high, strict=True)
        return {
            "layer": self.layer,
            "head": self.head,
            "tokens": list(self.tokens.pieces),
            "intervals": [
                {"target": int(t), "source": int(s), "weight": float(w), "low": float(low), "high": float(high)}
                for t, s, w, low, high in columns
            ],
            "statuses": dict(self.statuses),
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }


@dataclass(frozen=True, eq=False)
class Alternative:
    """Another attention of one head that the model cannot tell from its own: [target source] over all tokens.

    `total_variation` is the mass that moved in each row, `at_most` what could at most be moved (one where that is not
    known). `head_error` is how far the head's output moved, relative to the size of its values. `moved` is the
    largest change of the model's `compared` output, relative to the largest, when it really runs with this
    attention; `allowed` what rounding explains, `control` what as large a change in a random direction does.
    """

    targets: tuple[int, ...]
    weights: Float[np.ndarray, "target source"]
    total_variation: Float[np.ndarray, " target"]
    at_most: Float[np.ndarray, " target"]
    head_error: float
    compared: str
    moved: float
    allowed: float
    control: float

    @property
    def proved(self) -> bool:
        """Whether attention moved and the model's output did not, though it does for a change as large at random."""
        return self.moved <= self.allowed < self.control


@dataclass(frozen=True, eq=False)
class Alternatives:
    """What one head could have attended to instead: any distribution, and softmaxes of its own keys."""

    layer: int
    head: int
    tokens: Tokens
    targets: tuple[int, ...]
    weights: Float[np.ndarray, "target source"]
    polytope: Alternative | None
    keys: Alternative | None
    missing: Mapping[str, str]  # why one of the two is not there
    receipt: Receipt
    provenance: Mapping[str, str]

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import alternatives_text

        return alternatives_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        found = {
            name: jsonable(asdict(one)) for name in ("polytope", "keys") if (one := getattr(self, name)) is not None
        }
        return {
            "layer": self.layer,
            "head": self.head,
            "tokens": list(self.tokens.pieces),
            "targets": list(self.targets),
            "weights": self.weights.tolist(),
            **found,
            "missing": dict(self.missing),
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }


@dataclass(frozen=True, eq=False)
class HeadReport:
    """All about one head: its certificate, the intervals of its largest weights, and alternatives."""

    head: Head
    intervals: Intervals
    alternatives: Alternatives

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import head_report_text

        return head_report_text(self)

    def to_dict(self) -> dict[str, Any]:
        """All three, ready for JSON."""
        return {
            "head": self.head.to_dict(),
            "intervals": self.intervals.to_dict(),
            "alternatives": self.alternatives.to_dict(),
        }


@dataclass(frozen=True)
class LengthPoint:
    """All heads of one piece of text."""

    tokens: int
    rank: float
    null_share: float
    null_share_row_sum: float
    pearson: float
    spearman: float
    readable: float
    readable_given_keys: float


@dataclass(frozen=True)
class LengthCurve:
    """Rank, null share and correlation against length: means over heads, one point per piece of text."""

    points: tuple[LengthPoint, ...]
    provenance: Mapping[str, str]

    def lengths(self) -> list[tuple[LengthPoint, int]]:
        """The mean point of every length, and from how many pieces."""
        means = []
        for length in sorted({one.tokens for one in self.points}):
            group = [asdict(one) for one in self.points if one.tokens == length]
            mean = {name: float(np.mean([one[name] for one in group])) for name in group[0] if name != "tokens"}
            means.append((LengthPoint(tokens=length, **mean), len(group)))
        return means

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.view import length_curve_text

        return length_curve_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Points and means, ready for JSON."""
        return {
            "points": [jsonable(asdict(one)) for one in self.points],
            "means": [jsonable({**asdict(mean), "pieces": count}) for mean, count in self.lengths()],
            "provenance": dict(self.provenance),
        }
