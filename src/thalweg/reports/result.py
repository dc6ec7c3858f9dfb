"""The result of a report: everything that one page shows about one text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.attribution.mixing_result import Mixing
from thalweg.attribution.packed import PackedAttribution, headline, name_of
from thalweg.drawing.packed import Packed
from thalweg.identifiability.head_result import Intervals
from thalweg.identifiability.result import Certificate
from thalweg.models.prediction import Outcome, Prediction
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True, eq=False)
class HeadMap:
    """Attention maps of one block: rows [head · query] over keys.

    Each cell covers `cell` × `cell` tokens and holds the entry with the largest magnitude. `first_query` and
    `first_key` are the positions of the first row and column. `null` is the null component, if it was computed.
    """

    layer: int
    heads: int
    first_query: int
    first_key: int
    cell: int
    weights: Packed
    null: Packed | None


@dataclass(frozen=True, eq=False)
class Report:
    """Attributions, certificate, head maps and mixing of one text, ready to be shown as a page.

    `target` holds the positions that the page opens with, and `words` is True if it opens with words. `answer` holds
    the most probable outputs, if the target is where the prediction is read, and `outputs` the most probable one at
    every
    position, for models that have one at each. `prompt` is the number of tokens in the prompt if the others were
    generated. `left_out` lists in words what the page does not show.
    """

    tokens: Tokens
    target: tuple[int, ...]
    answer: Prediction | None
    explained: tuple[PackedAttribution, ...]
    provenance: Mapping[str, str]
    blocks: tuple[tuple[str, str], ...] = ()  # (name, role)
    certificate: Certificate | None = None
    heads: tuple[HeadMap, ...] = ()
    intervals: tuple[Intervals, ...] = ()
    mixing: Mixing | None = None
    prompt: int | None = None
    outputs: tuple[Outcome | None, ...] = ()
    words: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def prediction(self) -> str | None:
        """The name of the model's most probable output, if the target is where it is read."""
        return None if self.answer is None else self.answer.name

    def headline(self) -> str:
        """The main result in one or two sentences."""
        sentences = []
        if self.explained:
            name = " and ".join(f"‘{self._name(place)}’" for place in self.target)
            sentences.append(headline(self.explained, self.tokens, self.target, self.answer, name))
        if self.certificate is not None:
            counts, total = self.certificate.counts(), len(self.certificate.heads)
            sentences.append(f"Attention is uniquely determined in {counts['identifiable']} of {total} heads.")
        return " ".join(sentences)

    def _name(self, position: int) -> str:
        """The token at a position, or the generated token that was predicted there."""
        generated = self.prompt is not None and self.prompt <= position + 1 < len(self.tokens)
        return name_of(self.tokens, position + 1 if generated else position)

    def __rich__(self) -> "RenderableType":
        from thalweg.reports.view import report_text

        return report_text(self)

    def to_html(self) -> str:
        """A self-contained HTML page that opens from disk without a network."""
        from thalweg.reports.view import page

        return page(self)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def plot(self) -> "Figure":
        """A matplotlib figure: all methods over the tokens, for the initial target."""
        from thalweg.reports.view import report_figure

        return report_figure(self)

    def save(self, path: str | Path) -> None:
        """Write the page atomically."""
        from thalweg.files.atomic import draft_of

        path = Path(path)
        with draft_of(path) as draft:
            Path(draft).write_text(self.to_html(), encoding="utf-8")
