"""A corpus in a terminal: how many texts, what failed, where the rows are; its summary; the answer to a query."""

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from thalweg.corpus.query import Answer
from thalweg.corpus.result import Corpus
from thalweg.corpus.summary import Band, Summary, signed
from thalweg.drawing.terminal import Fitted, printable

SHOWN = 3  # errors and tokens of a summary; the page has more


def corpus_text(corpus: Corpus) -> RenderableType:
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
    if corpus.memory is not None:
        parts.append(Text(f"at most {corpus.memory / 2**20:,.0f} MB of memory beside the model", "dim"))
    if counts.failed:
        first = printable(counts.first_error or "")
        parts.append(Text(f"{counts.failed} texts failed; the first said: {first}", "yellow"))
    if counts.incomplete:
        parts.append(Text(f"{counts.incomplete} texts lack a method or the certificate; their rows say why", "yellow"))
    return Group(*parts)


def summary_text(summary: Summary) -> RenderableType:
    about = f"   model {printable(summary.provenance['model'])}   {summary.folder}"
    parts: list[RenderableType] = [
        Text.assemble(("corpus", "bold"), (printable(about), "dim")),
        Text(printable(" ".join(summary.sentences()))),
    ]
    parts += [
        Text(printable(f"{one.count:,} × {one.part} (first {one.text:,}): {one.error}"), "yellow")
        for one in summary.failures[:SHOWN]
    ]
    if summary.received:
        parts += [Text(), _methods(summary)]
    if len(summary.agreement) > 1:
        pairs = Table("rank correlation", "mean", "10th to 90th percentile", box=None, header_style="dim")
        for one in summary.agreement:
            if one.correlation is not None:
                band = one.correlation
                names = Text(printable(f"{one.method}, {one.other}"))
                pairs.add_row(names, signed(band.mean), f"{signed(band.low)} to {signed(band.high)}")
        parts += [Text(), pairs]
    if summary.heads:
        said = (f"{name} {count / sum(summary.verdicts.values()):.1%}" for name, count in summary.verdicts.items())
        parts += [Text(), Text(f"heads, all texts taken together: {', '.join(said)}")]
    exceeded = [one for one in summary.checks if one.exceeding]
    parts += [
        Text(printable(f"{one.method}: {one.identity} is exceeded on {one.exceeding} of {one.texts} texts"), "red")
        for one in exceeded
    ]
    if summary.checks and not exceeded:
        parts.append(Text("every check holds on every text", "dim"))
    return Group(*parts)


def _methods(summary: Summary) -> Table:
    """Of each method what tokens keep in the last layer, and what gets most."""
    table = Table("", "own at the top", "to special tokens", "largest most often", box=None, header_style="dim")
    top = {one.method: one.figures["own"] for one in summary.layers}
    for one in summary.received:
        tokens = "  ".join(f"{printable(token.token)} {token.first}" for token in one.first[:SHOWN])
        cells = (printable(one.method), _mean(top.get(one.method)), _mean(one.special_share), tokens)
        table.add_row(*map(Text, cells))
    return table


def _mean(band: Band | None) -> str:
    return "–" if band is None else f"{band.mean:.1%}"


def answer_text(answer: Answer) -> RenderableType:
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
