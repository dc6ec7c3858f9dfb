"""What the rows of a corpus say together, by SQL over its shards: memory does not grow with them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.attribution.mixing_result import KINDS
from thalweg.corpus.query import connected
from thalweg.corpus.rows import SCHEMA
from thalweg.corpus.storage import Counts, read_header, short
from thalweg.identifiability.brief_certificate import BRIEF_VERDICTS
from thalweg.identifiability.result import VERDICTS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from rich.console import RenderableType

LOW, HIGH = 10, 90  # per cent: eighty of a hundred texts lie between
FIGURES = ("own", "not_own", *KINDS)
LISTED = 10  # tokens, texts and errors
OFTEN = 10  # times that a token must have been kept for its mean to count
SHORT = 10  # tokens below which the order of sources says little


@dataclass(frozen=True)
class Band:
    """A mean, and the 10th and 90th percentile to a thousandth, over `count` texts or targets."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Failure:
    """An error, numbers and quotations aside, of `part`: the text, a method or the certificate; as `text` has it."""

    part: str
    count: int
    error: str
    text: int


@dataclass(frozen=True)
class WorstCheck:
    """An identity on the text where its error is largest beside what is allowed; `worst` is None if not finite."""

    method: str
    identity: str
    texts: int
    exceeding: int
    worst: float | None
    allowed: float
    text: int
    line: int


@dataclass(frozen=True)
class LayerFigures:
    """Mixing from the embeddings to a layer, over texts; figures are as in `MixingFigures`."""

    method: str
    layer: int
    figures: Mapping[str, Band | None]


@dataclass(frozen=True)
class LengthFigures:
    """Certificates of texts with `start` up to, not including, `stop` tokens: means over heads, then over texts."""

    start: int
    stop: int
    texts: int
    null_share: Band | None
    null_share_row_sum: Band | None
    verdicts: Mapping[str, float]


@dataclass(frozen=True)
class HeadFigures:
    """How many texts got which verdict on a head, and means of the part of its attention without effect."""

    layer: int
    head: int
    verdicts: Mapping[str, int]
    null_share: float | None
    null_share_row_sum: float | None

    @property
    def texts(self) -> int:
        return sum(self.verdicts.values())


@dataclass(frozen=True)
class TokenFigures:
    """How often a token was the largest source, how often it was kept as one of the largest, and its mean score then.

    `size` is the mean of |score|.
    """

    token: str
    first: int
    kept: int
    score: float
    size: float


@dataclass(frozen=True)
class Received:
    """What tokens receive by a method: those that are `first` most often, and those with the `largest` mean size."""

    method: str
    targets: int
    special_share: Band | None
    own_share: Band | None
    entropy: Band | None
    first: tuple[TokenFigures, ...]
    largest: tuple[TokenFigures, ...]


@dataclass(frozen=True)
class Agreement:
    """Rank correlation of two methods; `undefined` where one of them scores all sources alike."""

    method: str
    other: str
    correlation: Band | None
    undefined: int


@dataclass(frozen=True)
class Apart:
    """A target on which methods agree little: the mean over their pairs, and the pair that agrees least."""

    text: int
    line: int
    target: int
    tokens: int
    correlation: float
    method: str
    other: str
    lowest: float


@dataclass(frozen=True)
class Summary:
    """What a page shows of a corpus, finished or not."""

    folder: Path
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]
    counts: Counts
    tokens: Band | None
    failures: tuple[Failure, ...]
    checks: tuple[WorstCheck, ...]
    layers: tuple[LayerFigures, ...]
    lengths: tuple[LengthFigures, ...]
    heads: tuple[HeadFigures, ...]
    received: tuple[Received, ...]
    agreement: tuple[Agreement, ...]
    apart: tuple[Apart, ...]

    @property
    def configuration_hash(self) -> str:
        return short(self.configuration)

    @property
    def complete(self) -> bool:
        """Whether no text of the corpus is missing."""
        return self.counts.texts == self.configuration["texts"]

    @property
    def verdicts(self) -> dict[str, int]:
        """How many heads of all texts got which verdict."""
        return {one: sum(head.verdicts[one] for head in self.heads) for one in self.possible}

    @property
    def possible(self) -> tuple[str, ...]:
        """The verdicts that this run's certificates know."""
        return possible_verdicts(self.configuration)

    def sentences(self) -> tuple[str, ...]:
        """The answer, in a few sentences."""
        counts, total = self.counts, self.configuration["texts"]
        first = f"{total:,} texts" if self.complete else f"{counts.texts:,} of {total:,} texts"
        said = [f"{first}, of which {counts.failed:,} failed." if counts.failed else f"{first}."]
        if self.heads:
            share = self.verdicts["identifiable"] / sum(self.verdicts.values())
            read = "By its values attention" if self.configuration["certificate"] == "values" else "Attention"
            said.append(f"{read} can be read in {share:.0%} of heads, all texts taken together.")
        known = [(one.correlation.mean, one.method, one.other) for one in self.agreement if one.correlation]
        if known:
            mean, method, other = min(known)
            least = " is lowest" if len(known) > 1 else ""
            said.append(f"Rank correlation{least} between {method} and {other}: {signed(mean)} on average.")
        return tuple(said)

    def __rich__(self) -> "RenderableType":
        from thalweg.corpus.view import summary_text

        return summary_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, ready for JSON."""
        return {
            **asdict(self),
            "folder": str(self.folder),
            "schema": SCHEMA,
            "configuration_hash": self.configuration_hash,
            "complete": self.complete,
        }

    def to_html(self) -> str:
        """One page that stands alone: no network, opens from disk."""
        from thalweg.corpus.summary_page import summary_page

        return summary_page(self)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        from thalweg.files.atomic import draft_of

        path = Path(path)
        with draft_of(path) as draft:
            Path(draft).write_text(self.to_html(), encoding="utf-8")


def signed(value: float) -> str:
    """A correlation, as it is read."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def possible_verdicts(configuration: Mapping[str, Any]) -> tuple[str, ...]:
    return BRIEF_VERDICTS if configuration["certificate"] == "values" else VERDICTS


def summarise(folder: str | Path) -> Summary:
    """What the shards of a folder say, also while a run still writes into it."""
    path = Path(folder)
    header = read_header(path)
    configuration: dict[str, Any] = header["configuration"]
    methods: list[str] = configuration["methods"]
    verdicts = possible_verdicts(configuration)
    with connected(path, sealed=False) as connection:
        connection.execute("SET threads = 1")  # sums in the order of the rows: the same to the last digit
        return Summary(
            folder=path,
            configuration=configuration,
            provenance=header["provenance"],
            counts=_counts(connection),
            tokens=_band(*_only(connection, f"SELECT {_spread('tokens')} FROM rows WHERE target = 0")),
            failures=_failures(connection),
            checks=_checks(connection, methods),
            layers=_layers(connection, methods),
            lengths=_lengths(connection, verdicts),
            heads=_heads(connection, verdicts),
            received=_received(connection, methods),
            agreement=_agreement(connection, methods),
            apart=_apart(connection),
        )


def _counts(connection: "DuckDBPyConnection") -> Counts:
    lacking = "certificate_error IS NOT NULL OR list_any_value([one.error FOR one IN methods]) IS NOT NULL"
    sql = f"""
        SELECT count(*) FILTER (target = 0), count(*), count(error), count(*) FILTER (target = 0 AND ({lacking})),
            arg_min(error, text)
        FROM rows"""
    return Counts(*_only(connection, sql))


def _failures(connection: "DuckDBPyConnection") -> tuple[Failure, ...]:
    sql = f"""
        SELECT part, count(*) AS many, arg_min(error, text), min(text) AS first
        FROM (
            SELECT 'text' AS part, error, text FROM rows
            UNION ALL SELECT method, error, text FROM scores WHERE target = 0
            UNION ALL SELECT 'certificate', certificate_error, text FROM rows
        )
        WHERE error IS NOT NULL
        GROUP BY part, regexp_replace(error, '''[^'']*''|"[^"]*"|[0-9]+', '…', 'g')
        ORDER BY many DESC, part, first LIMIT {LISTED}"""
    return tuple(Failure(*row) for row in _all(connection, sql))


def _checks(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[WorstCheck, ...]:
    sql = """
        SELECT method, identity, count(*), count(*) FILTER (worst IS NULL OR worst > allowed),
            unnest(arg_max(
                {'worst': worst, 'allowed': allowed, 'text': text, 'line': line},
                CASE WHEN worst IS NULL THEN 'inf'::DOUBLE WHEN worst = 0 THEN 0 ELSE worst / allowed END
            ))
        FROM (SELECT text, line, unnest(checks, recursive := true) FROM rows)
        GROUP BY method, identity"""
    order = [*methods, "certificate"]
    found = (WorstCheck(*row) for row in _all(connection, sql))
    return tuple(sorted(found, key=lambda one: (order.index(one.method), one.identity)))


def _layers(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[LayerFigures, ...]:
    sql = f"SELECT method, layer, {', '.join(map(_spread, FIGURES))} FROM layers GROUP BY method, layer"
    found = (
        LayerFigures(method, layer, dict(zip(FIGURES, map(_band, spreads), strict=True)))
        for method, layer, *spreads in _all(connection, sql)
    )
    return tuple(sorted(found, key=lambda one: (methods.index(one.method), one.layer)))


def _lengths(connection: "DuckDBPyConnection", verdicts: Sequence[str]) -> tuple[LengthFigures, ...]:
    """By length in quarters of powers of two (16, 20, 24, 28, 32, 40, …): texts are mostly short, and some long."""
    means = (f"avg(len([1 FOR one IN heads IF one.verdict = '{name}']) / len(heads))" for name in verdicts)
    sql = f"""
        SELECT tokens // step * step AS start, step, count(*),
            {_spread("list_avg([one.null_share FOR one IN heads])")},
            {_spread("list_avg([one.null_share_row_sum FOR one IN heads])")}, {", ".join(means)}
        FROM (SELECT *, greatest(1, 2 ** (floor(log2(tokens)) - 2))::BIGINT AS step FROM rows WHERE len(heads) > 0)
        GROUP BY start, step ORDER BY start"""
    return tuple(
        LengthFigures(
            start, start + step, texts, _band(plain), _band(row_sum), dict(zip(verdicts, shares, strict=True))
        )
        for start, step, texts, plain, row_sum, *shares in _all(connection, sql)
    )


def _heads(connection: "DuckDBPyConnection", verdicts: Sequence[str]) -> tuple[HeadFigures, ...]:
    sql = f"""
        SELECT layer, head, avg(null_share), avg(null_share_row_sum),
            {", ".join(f"count(*) FILTER (verdict = '{name}')" for name in verdicts)}
        FROM heads GROUP BY layer, head ORDER BY layer, head"""
    return tuple(
        HeadFigures(layer, head, dict(zip(verdicts, counts, strict=True)), plain, row_sum)
        for layer, head, plain, row_sum, *counts in _all(connection, sql)
    )


def _received(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[Received, ...]:
    figures = ", ".join(map(_spread, ("special_share", "own_share", "entropy")))
    sql = f"SELECT method, count(*), {figures} FROM scores WHERE error IS NULL GROUP BY method"
    first = _tokens(connection, "first > 0", "first DESC, size DESC")
    largest = _tokens(connection, f"kept >= {OFTEN}", "size DESC")
    found = (
        Received(
            method,
            targets,
            _band(special),
            _band(own),
            _band(entropy),
            first.get(method, ()),
            largest.get(method, ()),
        )
        for method, targets, special, own, entropy in _all(connection, sql)
    )
    return tuple(sorted(found, key=lambda one: methods.index(one.method)))


def _tokens(connection: "DuckDBPyConnection", which: str, order: str) -> dict[str, tuple[TokenFigures, ...]]:
    """The tokens at the head of an order, by method. A source that gives nothing was kept for want of others."""
    sql = f"""
        SELECT * FROM (
            SELECT method, token, count(*) FILTER (place = 1) AS first, count(*) AS kept, avg(score) AS score,
                avg(abs(score)) AS size
            FROM sources WHERE score <> 0 GROUP BY method, token
        )
        WHERE {which}
        QUALIFY row_number() OVER (PARTITION BY method ORDER BY {order}, token) <= {LISTED}
        ORDER BY {order}, token"""
    found: dict[str, tuple[TokenFigures, ...]] = {}
    for method, *rest in _all(connection, sql):
        found[method] = (*found.get(method, ()), TokenFigures(*rest))
    return found


def _agreement(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[Agreement, ...]:
    sql = f"""
        SELECT method, other, {_spread("correlation")}, count(*) - count(correlation)
        FROM agreement GROUP BY method, other"""
    found = (
        Agreement(method, other, _band(spread), undefined) for method, other, spread, undefined in _all(connection, sql)
    )
    return tuple(sorted(found, key=lambda one: (methods.index(one.method), methods.index(one.other))))


def _apart(connection: "DuckDBPyConnection") -> tuple[Apart, ...]:
    sql = f"""
        SELECT text, line, target, tokens, mean, least.method, least.other, least.correlation
        FROM (
            SELECT text, line, target, tokens, list_avg([one.correlation FOR one IN agreement]) AS mean,
                list_min([
                    {{'correlation': one.correlation, 'method': one.method, 'other': one.other}}
                    FOR one IN agreement IF one.correlation IS NOT NULL
                ]) AS least
            FROM rows WHERE tokens >= {SHORT}
        )
        WHERE mean IS NOT NULL ORDER BY mean, text, target LIMIT {LISTED}"""
    return tuple(Apart(*row) for row in _all(connection, sql))


def _spread(column: str) -> str:
    """What `_band` is made of. Percentiles need all values; rounded ones, counted, are few however many rows."""
    return f"{{'mean': avg({column}), 'seen': histogram(round({column}, 3))}}"


def _band(spread: Mapping[str, Any]) -> Band | None:
    seen: Mapping[float, int] = spread["seen"]
    if not seen:
        return None
    values = sorted(seen)
    up_to = list(accumulate(seen[value] for value in values))

    def percentile(share: int) -> float:
        """The smallest value that so many per cent do not exceed."""
        return float(next(value for value, many in zip(values, up_to, strict=True) if 100 * many >= share * up_to[-1]))

    return Band(spread["mean"], percentile(LOW), percentile(HIGH), up_to[-1])


def _all(connection: "DuckDBPyConnection", sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def _only(connection: "DuckDBPyConnection", sql: str) -> tuple[Any, ...]:
    (row,) = _all(connection, sql)
    return row
