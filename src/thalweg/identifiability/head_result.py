"""One head in depth: intervals of its weights, and alternatives with the same output."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from thalweg.jsonable import jsonable
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True, eq=False)
class Intervals:
    """Smallest and largest values of some weights of one head over all distributions with the same output: [entry].

    `targets` and `sources` are positions of `tokens`. `statuses` counts the solver's statuses; "unique" weights need
    no solver.
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
    """A different attention map of one head with the same output, verified by running the model: [target source].

    `total_variation` is the mass that moved in each row, `at_most` an upper bound on it (one where no better bound is
    known). `head_error` is the change of the head's output, relative to the size of its values. `moved` is the largest
    change of the model's `compared` output, relative to its largest entry, when the model runs with this attention;
    `allowed` is the change explained by rounding, `control` that of an equally large random change of attention.
    `head_output` is what the head writes with these weights, `output` the model's output for `output_names` of
    `Alternatives`.
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
    head_output: Float[np.ndarray, "target value_size"]
    output: Float[np.ndarray, " entry"]

    @property
    def proved(self) -> bool:
        """Whether the model's output stayed within rounding although an equally large random change exceeds it."""
        return self.moved <= self.allowed < self.control


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Alternative attention of one head: among all distributions, and among softmaxes of its own keys.

    `head_output` is what the head writes with its own `weights`. `output` holds the largest entries of the model's
    output where the prediction is read (logits, or a hidden state), and `output_names` what they stand for.
    """

    layer: int
    head: int
    tokens: Tokens
    targets: tuple[int, ...]
    weights: Float[np.ndarray, "target source"]
    head_output: Float[np.ndarray, "target value_size"]
    output_names: tuple[str, ...]
    output: Float[np.ndarray, " entry"]
    polytope: Alternative | None
    keys: Alternative | None
    missing: Mapping[str, str]  # the reason why "polytope" or "keys" is None
    receipt: Receipt
    provenance: Mapping[str, str]

    @property
    def best(self) -> Alternative | None:
        """The alternative that is drawn: any distribution, or else a softmax of the head's own keys."""
        return self.polytope or self.keys

    def __rich__(self) -> "RenderableType":
        from thalweg.identifiability.alternatives_view import alternatives_text

        return alternatives_text(self)

    def to_html(self) -> str:
        """A self-contained HTML page: original and alternative attention side by side, with the same output."""
        from thalweg.identifiability.alternatives_view import page

        return page(self)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: original and alternative attention side by side, with the same output."""
        from thalweg.identifiability.alternatives_view import alternatives_figure

        return alternatives_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        alternatives = {"polytope": self.polytope, "keys": self.keys}
        return {
            "layer": self.layer,
            "head": self.head,
            "tokens": list(self.tokens.pieces),
            "targets": list(self.targets),
            "weights": self.weights.tolist(),
            "output": dict(zip(self.output_names, self.output.tolist(), strict=True)),
            **{name: jsonable(asdict(entry)) for name, entry in alternatives.items() if entry is not None},
            "missing": dict(self.missing),
            "receipt": self.receipt.to_dict(),
            "provenance": dict(self.provenance),
        }
