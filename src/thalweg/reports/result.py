"""A report: everything that one page shows about one text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.attribution.packed import PackedAttribution, headline, name_of
from thalweg.attribution.result import Mixing
from thalweg.drawing.packed import Packed
from thalweg.identifiability.result import Certificate, Intervals
from thalweg.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


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
    explained: tuple[PackedAttribution, ...]
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
        sentences = []
        if self.explained:
            name = " and ".join(f"‘{self._name(place)}’" for place in self.target)
            sentences.append(headline(self.explained, self.tokens, self.target, self.prediction, name))
        if self.certificate is not None:
            counts, total = self.certificate.counts(), len(self.certificate.heads)
            sentences.append(f"Attention is uniquely determined in {counts['identifiable']} of {total} heads.")
        return " ".join(sentences)

    def _name(self, position: int) -> str:
        """What stands at a position, or what the model wrote after it."""
        written = self.prompt is not None and self.prompt <= position + 1 < len(self.tokens)
        return name_of(self.tokens, position + 1 if written else position)

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
        """A matplotlib figure: the methods over the tokens, for what the page opens with."""
        from thalweg.reports.view import report_figure

        return report_figure(self)

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        from thalweg.files.atomic import draft_of

        path = Path(path)
        with draft_of(path) as draft:
            Path(draft).write_text(self.to_html(), encoding="utf-8")
