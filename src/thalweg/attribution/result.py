"""Attributions: scores of sources for targets, by one method or several side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from thalweg.axes import LayerArray, ScoreArray
from thalweg.errors import InputError, MissingExtraError
from thalweg.indices import check_index
from thalweg.jsonable import jsonable
from thalweg.methods.registry import Chain
from thalweg.models.prediction import Outcome, Prediction
from thalweg.ranks import centred_ranks, correlations
from thalweg.receipt import Receipt
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from pandas import DataFrame
    from rich.console import RenderableType

POOLED = -1  # the position of a target that is not one of the sources


@dataclass(frozen=True, eq=False)
class Attribution:
    """Scores [target source]: how much each source contributes to each target. Arrays are read-only.

    `positions` are the positions of the targets among the sources: `POOLED` for a prediction that is read from all of
    them, and for a target whose own column was dropped.

    `errors` are half widths of the scores' error bars (95 %), if the method estimates them. `per_layer` are the maps
    [layer target source] that `chain` combines into the scores. `answer` holds the model's
    most probable outputs if the target is the position where they are read.
    """

    scores: ScoreArray
    targets: Tokens
    sources: Tokens
    positions: tuple[int, ...]
    method: str
    params: Mapping[str, Any]
    receipt: Receipt
    provenance: Mapping[str, str]
    answer: Prediction | None = None
    per_layer: LayerArray | None = None
    errors: ScoreArray | None = None
    chain: Chain | None = None

    def __post_init__(self) -> None:
        for name in ("scores", "per_layer", "errors"):
            array = getattr(self, name)
            if array is not None:
                array = np.array(array, order="C")  # safetensors writes the raw buffer
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        for name in ("params", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def prediction(self) -> str | None:
        """The name of the model's most probable output, if the target is the position where it is read."""
        return None if self.answer is None else self.answer.name

    @property
    def explained(self) -> Outcome | None:
        """The output that the scores are about: the model's answer, or the one that the caller chose."""
        if self.answer is None:
            return None
        output = self.params.get("output")
        return self.answer.outcomes[0] if output is None else self.answer.find(output)

    @property
    def foil(self) -> Outcome | None:
        """The output that the explained one is compared with, if the caller chose one."""
        output = self.params.get("foil")
        return None if self.answer is None or output is None else self.answer.find(output)

    @property
    def row_sum_error(self) -> float:
        """Largest deviation of a row sum from one."""
        return float(np.abs(self.scores.sum(1) - 1).max(initial=0.0))

    def words(self) -> "Attribution":
        """Merge tokens into words: sources are summed and targets averaged, so rows keep their sum."""
        if all(span is None for span in self.sources.spans):
            raise InputError("words are unknown without a text: pass a text instead of token ids")
        rows, columns = self.targets.word_groups(), self.sources.word_groups()
        word_of = {position: word for word, (_, members) in enumerate(columns) for position in members}
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
            errors=None if self.errors is None else average @ self.errors @ gather,  # an upper bound
            per_layer=per_layer,
            targets=_merged(self.targets, rows),
            sources=_merged(self.sources, columns),
            positions=tuple(word_of.get(self.positions[members[0]], POOLED) for _, members in rows),
        )

    def top(self, count: int = 5, target: int = 0) -> list[tuple[str, float]]:
        """The largest sources of one target (a row number), by absolute score."""
        row = self.scores[check_index("target", target, len(self.targets), negative=True)]
        largest = np.argsort(-np.abs(row), kind="stable")[:count]
        labels = self.sources.labels()
        return [(labels[i], float(row[i])) for i in largest]

    def by_segment(self) -> Float[np.ndarray, "target segment"]:
        """Sum of scores over each text: for an encoder-decoder, the source and the target prefix."""
        segments = np.array(self.sources.segments)
        return np.stack([self.scores[:, segments == s].sum(1) for s in range(segments.max() + 1)], 1)

    def select(self, targets: Sequence[int] | None = None, *, special: bool = True) -> "Attribution":
        """Select rows; with `special=False` drop the columns of special tokens, without renormalising."""
        count = len(self.targets)
        rows = range(count) if targets is None else targets
        rows = tuple(check_index("target", row, count, negative=True) for row in rows)
        columns = tuple(i for i, is_special in enumerate(self.sources.special) if special or not is_special)
        column_of = {source: column for column, source in enumerate(columns)}
        return replace(
            self,
            scores=self.scores[np.ix_(rows, columns)],
            errors=None if self.errors is None else self.errors[np.ix_(rows, columns)],
            per_layer=None if len(columns) < len(self.sources) else self.per_layer,
            targets=self.targets.select(rows),
            sources=self.sources.select(columns),
            positions=tuple(column_of.get(self.positions[row], POOLED) for row in rows),
        )

    def renormalised(self) -> "Attribution":
        """Divide rows by the sum of their absolute values; rows of zeros stay unchanged."""
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
        targets, sources = np.indices(self.scores.shape).reshape(2, -1).tolist()
        return pandas.DataFrame(
            {
                "target": targets,
                "target_token": [self.targets.pieces[i] for i in targets],
                "source": sources,
                "source_token": [self.sources.pieces[i] for i in sources],
                "source_text": [self.sources.surface(i) or self.sources.pieces[i] for i in sources],
                "source_unknown": [self.sources.unknown[i] for i in sources],
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
        """A matplotlib figure: bars over the sources of one target, or a heat map of several targets."""
        from thalweg.attribution.view import attribution_figure

        return attribution_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        from thalweg.attribution.saving import header

        layers = None if self.per_layer is None else self.per_layer.tolist()
        errors = None if self.errors is None else self.errors.tolist()
        tokens = {"source_labels": list(self.sources.labels()), "warnings": list(self.sources.warnings())}
        return {**header(self), **tokens, "scores": self.scores.tolist(), "errors": errors, "per_layer": layers}

    def save(self, path: "str | Path") -> None:
        """Write a safetensors file, with everything but the arrays in its header."""
        from thalweg.attribution.saving import save

        save(self, path)

    @staticmethod
    def load(path: "str | Path") -> "Attribution":
        """Read a file written by `save`."""
        from thalweg.attribution.saving import load

        return load(path)


@dataclass(frozen=True)
class Comparison:
    """Attributions of the same targets and sources by several methods."""

    attributions: tuple[Attribution, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(attribution.method for attribution in self.attributions)

    def agreement(self) -> Float[np.ndarray, "method method"]:
        """Spearman's rank correlation between methods, with ranks within targets; NaN if scores are constant.

        If any method has negative scores, absolute values are ranked for all, because most methods have none.
        """
        scores = np.stack([attribution.scores for attribution in self.attributions])  # [method target source]
        ranks = centred_ranks(np.abs(scores) if (scores < 0).any() else scores)
        return correlations(ranks.reshape(len(scores), -1))

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
        """A matplotlib figure: sources of one target by method, with agreement, or a heat map per method."""
        from thalweg.attribution.view import comparison_figure

        return comparison_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            "methods": list(self.methods),
            "agreement": jsonable(self.agreement()),
            "attributions": [attribution.to_dict() for attribution in self.attributions],
        }


def _merged(tokens: Tokens, groups: list[tuple[str, list[int]]]) -> Tokens:
    """One token per word, with a span from its first to its last character."""

    def span(positions: list[int]) -> tuple[int, int] | None:
        known = [s for p in positions if (s := tokens.spans[p])]
        return (known[0][0], max(end for _, end in known)) if known else None

    firsts = tuple(positions[0] for _, positions in groups)
    return replace(
        tokens.select(firsts),
        pieces=tuple(label for label, _ in groups),
        ids=tuple(tokens.ids[p[0]] if len(p) == 1 else None for _, p in groups),
        spans=tuple(span(positions) for _, positions in groups),
        unknown=tuple(any(tokens.unknown[p] for p in positions) for _, positions in groups),
    )
