"""A corpus, its summary and the result of a query in the terminal."""

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from thalweg.corpus.query import QueryResult
from thalweg.corpus.result import Corpus
from thalweg.corpus.summary import Band, Summary, shortened, signed
from thalweg.corpus.words import MAX_CLASSES
from thalweg.drawing.terminal import Fitted, shown
from thalweg.models.prediction import percent
from thalweg.printable import printable, visible

MAX_LISTED = 3  # errors, and tokens per method; the page has more


@shown
def corpus_text(corpus: Corpus) -> RenderableType:
    counts, identity = corpus.counts, corpus.identity
    computed = [*identity["methods"], *(["certificate"] if identity["certificate"] else [])]
    parts: list[RenderableType] = [
        Text.assemble(
            ("corpus", "bold"), (visible(f"   model {corpus.provenance['model']}   {', '.join(computed)}"), "dim")
        ),
        Text(
            f"{corpus.texts} of {identity['texts']} texts, {counts.rows} rows in {corpus.shards} shards: "
            f"{printable(str(corpus.folder))}"
        ),
    ]
    if corpus.resumed and corpus.seconds:
        parts.append(Text(f"resumed after {corpus.resumed} texts", "dim"))
    new = corpus.texts - corpus.resumed
    if new:
        parts.append(Text(f"{corpus.seconds:.1f} seconds, {new / corpus.seconds:.1f} texts per second", "dim"))
    if corpus.memory is not None:
        parts.append(Text(f"at most {corpus.memory / 2**20:,.0f} MB of memory beyond the model", "dim"))
    if counts.failed:
        parts.append(
            Text(f"{counts.failed} texts failed; first error: {printable(counts.first_error or '')}", "yellow")
        )
    if counts.incomplete:
        parts.append(Text(f"{counts.incomplete} texts lack a method or the certificate; see their rows", "yellow"))
    return Group(*parts)


@shown
def summary_text(summary: Summary) -> RenderableType:
    origin = f"   model {printable(summary.provenance['model'])}   {summary.folder}"
    parts: list[RenderableType] = [
        Text.assemble(("corpus", "bold"), (printable(origin), "dim")),
        Text(printable(" ".join(summary.sentences()))),
    ]
    parts += [
        Text(printable(f"{group.count:,} × {group.part} (first text {group.text:,}): {group.error}"), "yellow")
        for group in summary.errors[:MAX_LISTED]
    ]
    if summary.classes:
        parts += [Text(), _classes(summary)]
    if summary.methods:
        parts += [Text(), _methods(summary)]
    if len(summary.agreement) > 1:
        parts += [Text(), _agreement(summary)]
    if summary.heads:
        total = sum(summary.verdicts.values())
        shares = (f"{verdict} {count / total:.1%}" for verdict, count in summary.verdicts.items())
        parts += [Text(), Text(f"heads over all texts: {', '.join(shares)}")]
    exceeded = [check for check in summary.checks if check.exceeding]
    parts += [
        Text(
            printable(
                f"{check.method}: {check.identity} exceeds its tolerance on {check.exceeding} of {check.texts} texts"
            ),
            "red",
        )
        for check in exceeded
    ]
    if summary.checks and not exceeded:
        parts.append(Text("every check is within its tolerance on every text", "dim"))
    return Group(*parts)


def _classes(summary: Summary) -> Table:
    """Predicted classes, and the words that speak for them by the leading method."""
    speak = f"speak for it ({printable(summary.leading_method or 'no words')}, 95 % bootstrap)"
    table = Table("class", "texts", "probability", Column(Text(speak)), box=None, header_style="dim")
    words = {entry.name: entry.words for entry in summary.words if entry.method == summary.leading_method}
    for figures in summary.classes[:MAX_CLASSES]:
        listed = "  ".join(
            f"{printable(shortened(word.word))} {100 * word.pull:.1f} ({100 * word.low:.1f} to {100 * word.high:.1f})"
            for word in words.get(figures.name, ())[:MAX_LISTED]
        )
        probability = "–" if figures.probability is None else percent(figures.probability)
        cells = (printable(shortened(figures.name)), f"{figures.texts:,} ({figures.share:.1%})", probability, listed)
        table.add_row(*map(Text, cells))
    return table


def _methods(summary: Summary) -> Table:
    """What tokens keep in the last layer and which sources are largest, by method."""
    table = Table("", "own, last layer", "special tokens", "most often largest", box=None, header_style="dim")
    last_own = {layer.method: layer.figures["own"] for layer in summary.layers}
    for method in summary.methods:
        tokens = "  ".join(
            f"{printable(token.token)} {token.times_largest}" for token in method.most_often_largest[:MAX_LISTED]
        )
        cells = (printable(method.method), _mean(last_own.get(method.method)), _mean(method.special_share), tokens)
        table.add_row(*map(Text, cells))
    return table


def _agreement(summary: Summary) -> Table:
    table = Table("rank correlation", "mean", "10th to 90th percentile", box=None, header_style="dim")
    for pair in summary.agreement:
        if pair.correlation is not None:
            band = pair.correlation
            names = Text(printable(f"{pair.method}, {pair.other}"))
            table.add_row(names, signed(band.mean), f"{signed(band.low)} to {signed(band.high)}")
    return table


def _mean(band: Band | None) -> str:
    return "–" if band is None else f"{band.mean:.1%}"


@shown
def query_text(result: QueryResult) -> RenderableType:
    """A table, or one line per cell if the terminal is too narrow for it."""
    wide = Table(
        *(Column(Text(printable(name)), no_wrap=True) for name in result.columns), box=None, header_style="dim"
    )
    narrow: list[RenderableType] = []
    for row in result.rows:
        cells = [_cell(value) for value in row]
        wide.add_row(*map(Text, cells))
        narrow += [
            Text.assemble((f"{printable(name)} ", "dim"), cell)
            for name, cell in zip(result.columns, cells, strict=True)
        ]
        narrow.append(Text())
    return Fitted(wide, Group(*narrow))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{printable(str(name))} {_cell(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_cell, value))
    return "–" if value is None else printable(str(value))
