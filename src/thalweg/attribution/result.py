"""Results of attribution: scores of sources for targets, several methods side by side, and how tokens mix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from thalweg.axes import LayerArray, ScoreArray
from thalweg.capture.target import Start
from thalweg.errors import InputError, MissingExtraError
from thalweg.jsonable import jsonable
from thalweg.methods.registry import Chain
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from pandas import DataFrame
    from rich.console import RenderableType

DISTANCES = {"1st": (1, 1), "2nd": (2, 2), "3rd": (3, 3), "4–5": (4, 5), "6–10": (6, 10), "11+": (11, None)}
KINDS = ("special", "punctuation", "content")


@dataclass(frozen=True, eq=False)
class Attribution:
    """Scores [target source]: how much of each target comes from each source. Arrays are read-only.

    `errors` are half widths of the scores' error bars (95 %), where a method estimates them.
    """

    scores: ScoreArray
    targets: Tokens
    sources: Tokens
    method: str
    params: Mapping[str, Any]
    receipt: Receipt
    provenance: Mapping[str, str]
    prediction: str | None = None
    per_layer: LayerArray | None = None
    errors: ScoreArray | None = None
    chain: Chain | None = None

    def __post_init__(self) -> None:
        for name in ("scores", "per_layer", "errors"):
            array = getattr(self, name)
            if array is not None:
                array = np.array(array, order="C")  # safetensors writes the buffer as it lies
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        for name in ("params", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def row_sum_error(self) -> float:
        """How far the rows are from summing to one."""
        return float(np.abs(self.scores.sum(1) - 1).max(initial=0.0))

    def words(self) -> "Attribution":
        """The same over whole words: sources are summed, targets averaged, so rows keep their sum."""
        if all(span is None for span in self.sources.spans):
            raise InputError("these tokens have no place in a text, so words are unknown: give a text, not token ids")
        rows, columns = self.targets.word_groups(), self.sources.word_groups()
        gather = np.zeros((len(self.sources), len(columns)))
        for number, (_, positions) in enumerate(columns):
            gather[positions, number] = 1
        average = np.zeros((len(rows), len(self.targets)))
        for number, (_, positions) in enumerate(rows):
            average[number, positions] = 1 / len(positions)
        per_layer = None
        if self.per_layer is not None and self.per_layer.shape[-1] == len(self.sources):
            mean = gather.T / gather.sum(0)[:, None]
            per_layer = mean @ self.per_layer @ gather
        return replace(
            self,
            scores=average @ self.scores @ gather,
            errors=None if self.errors is None else average @ self.errors @ gather,  # as if they all went one way
            per_layer=per_layer,
            targets=_merged(self.targets, rows),
            sources=_merged(self.sources, columns),
        )

    def top(self, count: int = 5, target: int = 0) -> list[tuple[str, float]]:
        """The sources that give most to a target (a row number), largest first."""
        if not -len(self.targets) <= target < len(self.targets):
            raise InputError(f"row {target} was asked for, there are {len(self.targets)} targets")
        row = self.scores[target]
        best = np.argsort(-np.abs(row), kind="stable")[:count]
        return [(self.sources.pieces[i], float(row[i])) for i in best]

    def by_segment(self) -> Float[np.ndarray, "target segment"]:
        """The share of each text in every row: of an encoder-decoder the source's and the prefix's."""
        segments = np.array(self.sources.segments)
        return np.stack([self.scores[:, segments == s].sum(1) for s in range(segments.max() + 1)], 1)

    def select(self, targets: Sequence[int] | None = None, *, special: bool = True) -> "Attribution":
        """Some of the rows; with `special=False` without the columns of special tokens, not renormalised."""
        rows = tuple(range(len(self.targets)) if targets is None else targets)
        if not all(-len(self.targets) <= row < len(self.targets) for row in rows):
            raise InputError(f"rows {list(rows)} were asked for, there are {len(self.targets)} targets")
        columns = tuple(i for i, is_special in enumerate(self.sources.special) if special or not is_special)
        return replace(
            self,
            scores=self.scores[np.ix_(rows, columns)],
            errors=None if self.errors is None else self.errors[np.ix_(rows, columns)],
            per_layer=None if len(columns) < len(self.sources) else self.per_layer,
            targets=self.targets.select(rows),
            sources=self.sources.select(columns),
        )

    def renormalised(self) -> "Attribution":
        """Rows divided by the sum of their absolute values; a row of zeros stays as it is."""
        size = np.abs(self.scores).sum(1, keepdims=True)
        size = np.where(size == 0, 1, size)
        errors = None if self.errors is None else self.errors / size
        return replace(self, scores=self.scores / size, errors=errors)

    def to_pandas(self) -> "DataFrame":
        """One row per pair of target and source."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("to_pandas needs pandas: install thalweg[data]") from error
        targets, sources = np.indices(self.scores.shape).reshape(2, -1)
        return pandas.DataFrame(
            {
                "target": targets,
                "target_token": [self.targets.pieces[i] for i in targets],
                "source": sources,
                "source_token": [self.sources.pieces[i] for i in sources],
                "score": self.scores.ravel(),
            }
        )

    def __rich__(self) -> "RenderableType":
        from thalweg.attribution.view import attribution_text

        return attribution_text(self)

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from thalweg.attribution.view import page

        return page([self])

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: bars over the tokens of one target, or a heat map of several."""
        from thalweg.attribution.view import attribution_figure

        return attribution_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        from thalweg.attribution.saving import header

        layers = None if self.per_layer is None else self.per_layer.tolist()
        errors = None if self.errors is None else self.errors.tolist()
        return {**header(self), "scores": self.scores.tolist(), "errors": errors, "per_layer": layers}

    def save(self, path: "str | Path") -> None:
        """Write to one safetensors file, whose header holds everything that is not a number."""
        from thalweg.attribution.saving import save

        save(self, path)

    @staticmethod
    def load(path: "str | Path") -> "Attribution":
        """Read what `save` wrote."""
        from thalweg.attribution.saving import load

        return load(path)


@dataclass(frozen=True)
class Comparison:
    """Attributions of the same targets and sources by different methods."""

    attributions: tuple[Attribution, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(one.method for one in self.attributions)

    def agreement(self) -> Float[np.ndarray, "method method"]:
        """Spearman's rank correlation between methods over all scores; NaN where one is constant.

        Where a method's scores have a sign, the sizes of all are ranked: most have none.
        """
        signed = any((one.scores < 0).any() for one in self.attributions)
        scores = [np.abs(one.scores) if signed else one.scores for one in self.attributions]
        ranks = np.stack([rankdata(one, axis=1).ravel() for one in scores])
        ranks = ranks - ranks.mean(1, keepdims=True)
        size = np.linalg.norm(ranks, axis=1, keepdims=True)
        size[size == 0] = np.nan
        return (ranks / size) @ (ranks / size).T

    def __rich__(self) -> "RenderableType":
        from thalweg.attribution.view import comparison_text

        return comparison_text(self)

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from thalweg.attribution.view import page

        return page(self.attributions)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: methods over the tokens of one target with their agreement, or a heat map of each."""
        from thalweg.attribution.view import comparison_figure

        return comparison_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "methods": list(self.methods),
            "agreement": jsonable(self.agreement()),
            "attributions": [one.to_dict() for one in self.attributions],
        }


@dataclass(frozen=True, eq=False)
class MixingFigures:
    """Means over tokens of what a map says, for every layer.

    - `own`: a token's share in its own map. `not_own`: how many tokens have a larger contributor than themselves.
    - `by_distance`: what neighbours give, by how far away they stand, both sides together, as in `DISTANCES`; what
      comes from the other text of an encoder-decoder has no distance.
    - `by_kind`: what special tokens, punctuation and content tokens give, a token's own share included.
    """

    own: Float[np.ndarray, " layer"]
    not_own: Float[np.ndarray, " layer"]
    by_distance: Float[np.ndarray, "layer distance"]
    by_kind: Float[np.ndarray, "layer kind"]
    receipt: Receipt

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, ready for JSON."""
        return {
            "own": self.own.tolist(),
            "not_own": self.not_own.tolist(),
            "by_distance": [dict(zip(DISTANCES, row, strict=True)) for row in self.by_distance.tolist()],
            "by_kind": [dict(zip(KINDS, row, strict=True)) for row in self.by_kind.tolist()],
            "receipt": self.receipt.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Mixing:
    """Figures of several methods; maps lead from the embeddings to each layer, or from the layer before."""

    figures: Mapping[str, MixingFigures]
    layers: tuple[str, ...]
    start: Start
    texts: int
    tokens: int
    provenance: Mapping[str, str]

    @property
    def own(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """What tokens keep of themselves, by method."""
        return {name: one.own for name, one in self.figures.items()}

    def __rich__(self) -> "RenderableType":
        from thalweg.attribution.view import mixing_text

        return mixing_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "start": self.start,
            "texts": self.texts,
            "tokens": self.tokens,
            "layers": list(self.layers),
            "methods": {name: one.to_dict() for name, one in self.figures.items()},
            "provenance": dict(self.provenance),
        }


def _merged(tokens: Tokens, groups: list[tuple[str, list[int]]]) -> Tokens:
    """One token per word, with the span from its first character to its last."""

    def span(positions: list[int]) -> tuple[int, int] | None:
        known = [s for p in positions if (s := tokens.spans[p])]
        return (known[0][0], max(end for _, end in known)) if known else None

    firsts = tuple(positions[0] for _, positions in groups)
    return replace(
        tokens.select(firsts),
        pieces=tuple(label for label, _ in groups),
        ids=tuple(tokens.ids[p[0]] if len(p) == 1 else None for _, p in groups),
        spans=tuple(span(positions) for _, positions in groups),
    )
