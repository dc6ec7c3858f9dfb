"""A corpus in a terminal: how many texts, what failed, where the rows are; and the answer to a query as a table."""

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from thalweg.corpus.query import Answer
from thalweg.corpus.result import Corpus
from thalweg.views.fitted import Fitted
from thalweg.views.terminal import printable, render


@render.register
def _(corpus: Corpus) -> RenderableType:
    counts, chosen = corpus.counts, corpus.configuration
    said = [*chosen["methods"], *(["certificate"] if chosen["certificate"] else [])]
    parts: list[RenderableType] = [
        Text.assemble(("corpus", "bold"), (f"   model {corpus.provenance['model']}   {', '.join(said)}", "dim")),
        Text(
            f"{corpus.texts} of {chosen['texts']} texts, {counts.rows} rows in {corpus.shards} shards: {corpus.folder}"
        ),
    ]
    if corpus.found and corpus.seconds:
        parts.append(Text(f"{corpus.found} texts were there from an earlier run", "dim"))
    new = corpus.texts - corpus.found
    if new:
        parts.append(Text(f"{corpus.seconds:.1f} seconds, {new / corpus.seconds:.1f} texts per second", "dim"))
    if counts.failed:
        first = printable(counts.first_error or "")
        parts.append(Text(f"{counts.failed} texts failed; the first said: {first}", "yellow"))
    if counts.incomplete:
        parts.append(Text(f"{counts.incomplete} texts lack a method or the certificate; their rows say why", "yellow"))
    return Group(*parts)


@render.register
def _(answer: Answer) -> RenderableType:
    wide = Table(
        *(Column(Text(printable(name)), no_wrap=True) for name in answer.columns), box=None, header_style="dim"
    )
    narrow: list[RenderableType] = []
    for row in answer.rows:
        cells = [_shown(cell) for cell in row]
        wide.add_row(*map(Text, cells))
        narrow += [
            Text.assemble((f"{printable(name)} ", "dim"), cell)
            for name, cell in zip(answer.columns, cells, strict=True)
        ]
        narrow.append(Text())
    return Fitted(wide, Group(*narrow))


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, dict):
        return ", ".join(f"{printable(str(name))} {_shown(value)}" for name, value in cell.items())
    if isinstance(cell, list | tuple):
        return "; ".join(map(_shown, cell))
    return "–" if cell is None else printable(str(cell))
