"""Compute the summary of a corpus by SQL over its shards, in memory that does not grow with their number."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.attribution.mixing_result import KINDS
from thalweg.corpus.query import connect
from thalweg.corpus.shard_store import KIND, Counts
from thalweg.corpus.summary import (
    MAX_LISTED,
    MIN_TIMES_KEPT,
    MIN_TOKENS,
    Band,
    ErrorGroup,
    HeadFigures,
    LayerFigures,
    LengthFigures,
    LowAgreement,
    MethodFigures,
    PairAgreement,
    Summary,
    TokenFigures,
    WorstCheck,
    possible_verdicts,
)
from thalweg.files.run_folder import read_header

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOW_PERCENT, HIGH_PERCENT = 10, 90
LAYER_FIGURES = ("own", "not_own", *KINDS)


def summarise(folder: str | Path) -> Summary:
    """Summarise the rows of a folder, also while a run is writing to it."""
    path = Path(folder)
    header = read_header(path, KIND)
    methods: list[str] = header.identity["methods"]
    verdicts = possible_verdicts(header.identity)
    with connect(path, sealed=False) as connection:
        connection.execute("SET threads = 1")  # sums in the order of the rows, the same to the last digit
        return Summary(
            folder=path,
            identity=header.identity,
            provenance=header.provenance,
            counts=_counts(connection),
            tokens=_band(*_row(connection, f"SELECT {_spread('tokens')} FROM rows WHERE target = 0")),
            errors=_errors(connection),
            checks=_checks(connection, methods),
            layers=_layers(connection, methods),
            lengths=_lengths(connection, verdicts),
            heads=_heads(connection, verdicts),
            methods=_methods(connection, methods),
            agreement=_agreement(connection, methods),
            lowest_agreement=_lowest_agreement(connection),
        )


def _counts(connection: "DuckDBPyConnection") -> Counts:
    lacking = "certificate_error IS NOT NULL OR list_any_value([entry.error FOR entry IN methods]) IS NOT NULL"
    sql = f"""
        SELECT count(*) FILTER (target = 0), count(*), count(error), count(*) FILTER (target = 0 AND ({lacking})),
            arg_min(error, text)
        FROM rows"""
    return Counts(*_row(connection, sql))


def _errors(connection: "DuckDBPyConnection") -> tuple[ErrorGroup, ...]:
    sql = f"""
        SELECT part, count(*) AS times, arg_min(error, text), min(text) AS first
        FROM (
            SELECT 'text' AS part, error, text FROM rows
            UNION ALL SELECT method, error, text FROM scores WHERE target = 0
            UNION ALL SELECT 'certificate', certificate_error, text FROM rows
        )
        WHERE error IS NOT NULL
        GROUP BY part, regexp_replace(error, '''[^'']*''|"[^"]*"|[0-9]+', '…', 'g')
        ORDER BY times DESC, part, first LIMIT {MAX_LISTED}"""
    return tuple(ErrorGroup(*row) for row in _rows(connection, sql))


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
    checks = (WorstCheck(*row) for row in _rows(connection, sql))
    return tuple(sorted(checks, key=lambda check: (order.index(check.method), check.identity)))


def _layers(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[LayerFigures, ...]:
    sql = f"SELECT method, layer, {', '.join(map(_spread, LAYER_FIGURES))} FROM layers GROUP BY method, layer"
    layers = (
        LayerFigures(method, layer, dict(zip(LAYER_FIGURES, map(_band, spreads), strict=True)))
        for method, layer, *spreads in _rows(connection, sql)
    )
    return tuple(sorted(layers, key=lambda figures: (methods.index(figures.method), figures.layer)))


def _lengths(connection: "DuckDBPyConnection", verdicts: Sequence[str]) -> tuple[LengthFigures, ...]:
    """Bins are quarters of powers of two (16, 20, 24, 28, 32, 40, …): most texts are short, a few are long."""
    means = (f"avg(len([1 FOR head IN heads IF head.verdict = '{name}']) / len(heads))" for name in verdicts)
    sql = f"""
        SELECT tokens // step * step AS start, step, count(*),
            {_spread("list_avg([head.null_share FOR head IN heads])")},
            {_spread("list_avg([head.null_share_row_sum FOR head IN heads])")}, {", ".join(means)}
        FROM (SELECT *, greatest(1, 2 ** (floor(log2(tokens)) - 2))::BIGINT AS step FROM rows WHERE len(heads) > 0)
        GROUP BY start, step ORDER BY start"""
    return tuple(
        LengthFigures(
            start, start + step, texts, _band(plain), _band(row_sum), dict(zip(verdicts, shares, strict=True))
        )
        for start, step, texts, plain, row_sum, *shares in _rows(connection, sql)
    )


def _heads(connection: "DuckDBPyConnection", verdicts: Sequence[str]) -> tuple[HeadFigures, ...]:
    sql = f"""
        SELECT layer, head, avg(null_share), avg(null_share_row_sum),
            {", ".join(f"count(*) FILTER (verdict = '{name}')" for name in verdicts)}
        FROM heads GROUP BY layer, head ORDER BY layer, head"""
    return tuple(
        HeadFigures(layer, head, dict(zip(verdicts, counts, strict=True)), plain, row_sum)
        for layer, head, plain, row_sum, *counts in _rows(connection, sql)
    )


def _methods(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[MethodFigures, ...]:
    spreads = ", ".join(map(_spread, ("special_share", "own_share", "entropy")))
    sql = f"SELECT method, count(*), {spreads} FROM scores WHERE error IS NULL GROUP BY method"
    most_often = _tokens(connection, "times_largest > 0", "times_largest DESC, mean_size DESC")
    largest_mean = _tokens(connection, f"times_kept >= {MIN_TIMES_KEPT}", "mean_size DESC")
    figures = (
        MethodFigures(
            method,
            targets,
            _band(special),
            _band(own),
            _band(entropy),
            most_often.get(method, ()),
            largest_mean.get(method, ()),
        )
        for method, targets, special, own, entropy in _rows(connection, sql)
    )
    return tuple(sorted(figures, key=lambda figure: methods.index(figure.method)))


def _tokens(connection: "DuckDBPyConnection", condition: str, order: str) -> dict[str, tuple[TokenFigures, ...]]:
    """The first tokens in an order, by method. Sources with score 0 fill up short lists and are not counted."""
    sql = f"""
        SELECT * FROM (
            SELECT method, token, count(*) FILTER (place = 1) AS times_largest, count(*) AS times_kept,
                avg(score) AS mean_score, avg(abs(score)) AS mean_size
            FROM sources WHERE score <> 0 GROUP BY method, token
        )
        WHERE {condition}
        QUALIFY row_number() OVER (PARTITION BY method ORDER BY {order}, token) <= {MAX_LISTED}
        ORDER BY {order}, token"""
    tokens: dict[str, tuple[TokenFigures, ...]] = {}
    for method, *figures in _rows(connection, sql):
        tokens[method] = (*tokens.get(method, ()), TokenFigures(*figures))
    return tokens


def _agreement(connection: "DuckDBPyConnection", methods: Sequence[str]) -> tuple[PairAgreement, ...]:
    sql = f"""
        SELECT method, other, {_spread("correlation")}, count(*) - count(correlation)
        FROM agreement GROUP BY method, other"""
    pairs = (
        PairAgreement(method, other, _band(spread), undefined)
        for method, other, spread, undefined in _rows(connection, sql)
    )
    return tuple(sorted(pairs, key=lambda pair: (methods.index(pair.method), methods.index(pair.other))))


def _lowest_agreement(connection: "DuckDBPyConnection") -> tuple[LowAgreement, ...]:
    sql = f"""
        SELECT text, line, target, tokens, mean, lowest.method, lowest.other, lowest.correlation
        FROM (
            SELECT text, line, target, tokens, list_avg([pair.correlation FOR pair IN agreement]) AS mean,
                list_min([
                    {{'correlation': pair.correlation, 'method': pair.method, 'other': pair.other}}
                    FOR pair IN agreement IF pair.correlation IS NOT NULL
                ]) AS lowest
            FROM rows WHERE tokens >= {MIN_TOKENS}
        )
        WHERE mean IS NOT NULL ORDER BY mean, text, target LIMIT {MAX_LISTED}"""
    return tuple(LowAgreement(*row) for row in _rows(connection, sql))


def _spread(column: str) -> str:
    """SQL for the input of `_band`: percentiles need all values, but counts of rounded values stay few."""
    return f"{{'mean': avg({column}), 'counts': histogram(round({column}, 3))}}"


def _band(spread: Mapping[str, Any]) -> Band | None:
    counts: Mapping[float, int] = spread["counts"]
    if not counts:
        return None
    values = sorted(counts)
    cumulative = list(accumulate(counts[value] for value in values))

    def percentile(percent: int) -> float:
        """The smallest value that at least `percent` per cent of all values do not exceed."""
        return float(
            next(
                value
                for value, count in zip(values, cumulative, strict=True)
                if 100 * count >= percent * cumulative[-1]
            )
        )

    return Band(spread["mean"], percentile(LOW_PERCENT), percentile(HIGH_PERCENT), cumulative[-1])


def _rows(connection: "DuckDBPyConnection", sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def _row(connection: "DuckDBPyConnection", sql: str) -> tuple[Any, ...]:
    (row,) = _rows(connection, sql)
    return row
