"""Compute the summary of a corpus in one pass over its shards, in memory that does not grow with their number."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.attribution.mixing_result import KINDS
from thalweg.corpus.examples import read_examples
from thalweg.corpus.rows import import_parquet
from thalweg.corpus.shard_store import ROWS, read_run, total_counts
from thalweg.corpus.summary import (
    MAX_LISTED,
    MIN_TIMES_KEPT,
    MIN_TOKENS,
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
from thalweg.corpus.tallies import LIMIT, Names, Spread, Tally, entries, numbers
from thalweg.corpus.words import ClassTally
from thalweg.errors import InputError

BATCH_ROWS = 4096  # of shards that are added at once
LAYER_FIGURES = ("own", "not_own", *KINDS)
NESTED = {  # fields of lists that the summary reads
    "methods": (
        "method",
        "error",
        "sources.list.element.token",
        "sources.list.element.score",
        "special_share",
        "own_share",
        "entropy",
        "word_shares.list.element",
    ),
    "words": ("word",),
    "agreement": ("method", "other", "correlation"),
    "layers": ("method", "layer", *LAYER_FIGURES),
    "heads": ("layer", "head", "verdict", "null_share", "null_share_row_sum"),
    "checks": ("method", "identity", "worst", "allowed"),
}
PLAIN = ("text", "line", "target", "tokens", "error", "certificate_error", "prediction", "probability")
COLUMNS = [*PLAIN, *(f"{name}.list.element.{field}" for name, fields in NESTED.items() for field in fields)]
METHOD_FIGURES = ("special_share", "own_share", "entropy")
VARIABLE_PARTS = re.compile(r"""'[^']*'|"[^"]*"|[0-9]+""")  # of an error, which do not distinguish it


def summarise(folder: str | Path) -> Summary:
    """Summarise the rows of a folder, also while a run is writing to it."""
    path = Path(folder)
    header, labels = read_run(path)
    if not labels:
        raise InputError(f"{path} has no shards yet; wait for its run, or resume it")
    methods: list[str] = header.identity["methods"]
    verdicts = possible_verdicts(header.identity)
    tokens, errors, checks = Spread(), _Errors(), _Checks([*methods, "certificate"])
    layers, lengths, heads = _Layers(methods), _Lengths(verdicts), _Heads(verdicts)
    sources, agreement = _Sources(methods), _Agreement(methods)
    files, first_texts = [path / ROWS.format(number) for number in sorted(labels)], []
    with ClassTally(methods) as classes:
        for rows in _batches(files, first_texts):
            is_first = numbers(rows["target"]) == 0
            first = rows if is_first.all() else rows.filter(is_first)
            tokens.add(np.zeros(first.num_rows, np.int64), numbers(first["tokens"]))
            for part in (errors, checks, layers, lengths, heads):
                part.add(first)
            for part in (sources, agreement):
                part.add(rows)
            if header.identity["task"] == "classification":
                classes.add(first)
        counted, words = classes.classes(), classes.words()
    examples = {
        text for entry in (*counted, *(word for listed in words for word in listed.words)) for text in entry.examples
    }
    return Summary(
        folder=path,
        identity=header.identity,
        provenance=header.provenance,
        counts=total_counts(labels),
        tokens=tokens.bands().get(0),
        errors=errors.figures(),
        checks=checks.figures(),
        layers=layers.figures(),
        lengths=lengths.figures(),
        heads=heads.figures(),
        methods=sources.figures(),
        agreement=agreement.figures(),
        lowest_agreement=tuple(agreement.lowest),
        classes=counted,
        words=words,
        examples=read_examples(files, first_texts, examples),
    )


def _batches(files: Sequence[Path], first_texts: list[int]) -> Iterator[Any]:
    """The rows of the shards, a few thousand at a time; the number of each shard's first text is noted."""
    pyarrow, parquet = import_parquet()
    held: list[Any] = []
    try:
        for file in files:
            held.append(parquet.ParquetFile(file).read(COLUMNS))
            first_texts.append(held[-1]["text"][0].as_py())
            if sum(table.num_rows for table in held) >= BATCH_ROWS or file == files[-1]:
                yield pyarrow.concat_tables(held).combine_chunks()
                held.clear()
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"the rows cannot be read: {' '.join(str(error).split())}") from error


class _Errors:
    """Errors by part and by message, regardless of numbers and quoted names."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], tuple[int, str, int]] = {}

    def add(self, first: Any) -> None:
        parents, methods = entries(first["methods"])
        texts = first["text"].to_numpy()
        self._count(["text"] * len(texts), texts, first["error"])
        if len(parents):
            self._count(methods.field("method").to_pylist(), texts[parents], methods.field("error"))
        self._count(["certificate"] * len(texts), texts, first["certificate_error"])

    def _count(self, parts: Sequence[str], texts: np.ndarray, errors: Any) -> None:
        if errors.null_count == len(errors):
            return
        for part, text, error in zip(parts, texts.tolist(), errors.to_pylist(), strict=True):
            if error is not None:
                key = part, VARIABLE_PARTS.sub("…", error)
                count, first_error, first_text = self._groups.get(key, (0, error, text))
                self._groups[key] = count + 1, first_error, first_text

    def figures(self) -> tuple[ErrorGroup, ...]:
        groups = (ErrorGroup(part, *group) for (part, _), group in self._groups.items())
        return tuple(sorted(groups, key=lambda group: (-group.count, group.part, group.text))[:MAX_LISTED])


class _Checks:
    """The worst error of each check relative to its tolerance, and how many texts exceed it."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._order = methods
        self._names = Names()
        self._worst: dict[tuple[str, str], tuple[float, WorstCheck]] = {}

    def add(self, first: Any) -> None:
        parents, checks = entries(first["checks"])
        if not len(parents):
            return
        worst, allowed = numbers(checks.field("worst")), numbers(checks.field("allowed"))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(np.isnan(worst), np.inf, np.where(worst == 0, 0.0, worst / allowed))
        texts, lines = first["text"].to_numpy()[parents], first["line"].to_numpy()[parents]
        codes = self._names.codes(checks.field("method")) * LIMIT + self._names.codes(checks.field("identity"))
        for code in np.unique(codes):
            own = np.flatnonzero(codes == code)
            key = self._names[int(code) // LIMIT], self._names[int(code) % LIMIT]
            row = own[ratio[own].argmax()]
            exceeding = int((np.isnan(worst[own]) | (worst[own] > allowed[own])).sum())
            largest, known = self._worst.get(key, (-1.0, None))
            seen, exceeded = (
                (len(own), exceeding) if known is None else (known.texts + len(own), known.exceeding + exceeding)
            )
            if known is None or ratio[row] > largest:
                error = None if np.isnan(worst[row]) else float(worst[row])
                place = int(texts[row]), int(lines[row])
                largest, known = float(ratio[row]), WorstCheck(*key, 0, 0, error, float(allowed[row]), *place)
            self._worst[key] = largest, replace(known, texts=seen, exceeding=exceeded)

    def figures(self) -> tuple[WorstCheck, ...]:
        checks = (check for _, check in self._worst.values())
        return tuple(sorted(checks, key=lambda check: (self._order.index(check.method), check.identity)))


class _Layers:
    """Mixing by method and layer."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._methods = Names(methods)
        self._spreads = {name: Spread() for name in LAYER_FIGURES}
        self._seen = Tally()

    def add(self, first: Any) -> None:
        parents, layers = entries(first["layers"])
        if len(parents):
            groups = self._methods.codes(layers.field("method")) * LIMIT + layers.field("layer").to_numpy()
            self._seen.add(groups)
            for name, spread in self._spreads.items():
                spread.add(groups, numbers(layers.field(name)))

    def figures(self) -> tuple[LayerFigures, ...]:
        bands = {name: spread.bands() for name, spread in self._spreads.items()}
        return tuple(
            LayerFigures(
                self._methods[group // LIMIT], group % LIMIT, {name: bands[name].get(group) for name in LAYER_FIGURES}
            )
            for group in self._seen.keys.tolist()
        )


class _Lengths:
    """Certificates by number of tokens.

    Bins are quarters of powers of two (16, 20, 24, 28, 32, 40, …): most texts are short, a few are long.
    """

    def __init__(self, verdicts: Sequence[str]) -> None:
        self._verdicts = verdicts
        self._plain, self._row_sum, self._shares = Spread(), Spread(), Tally(len(verdicts))

    def add(self, first: Any) -> None:
        parents, heads = entries(first["heads"])
        if not len(parents):
            return
        rows, members = _members(parents)
        starts = _bin_starts(first["tokens"].to_numpy()[rows])
        verdicts = Names(self._verdicts).codes(heads.field("verdict"))
        sizes = np.bincount(members)
        shares = (np.bincount(members, verdicts == code) / sizes for code in range(len(self._verdicts)))
        self._shares.add(starts, *shares)
        self._plain.add(starts, _row_means(members, numbers(heads.field("null_share"))))
        self._row_sum.add(starts, _row_means(members, numbers(heads.field("null_share_row_sum"))))

    def figures(self) -> tuple[LengthFigures, ...]:
        plain, row_sum, shares = self._plain.bands(), self._row_sum.bands(), self._shares.means()
        return tuple(
            LengthFigures(
                start,
                start + max(1, 2 ** (start.bit_length() - 3)) if start > 3 else start + 1,
                int(texts),
                plain.get(start),
                row_sum.get(start),
                dict(zip(self._verdicts, shares[start], strict=True)),
            )
            for start, texts in zip(self._shares.keys.tolist(), self._shares.counts, strict=True)
        )


def _bin_starts(tokens: np.ndarray) -> np.ndarray:
    steps = np.maximum(1, 2.0 ** (np.floor(np.log2(tokens)) - 2)).astype(np.int64)
    return tokens.astype(np.int64) // steps * steps


def _members(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows among ascending numbers of rows, and the place of each number among them."""
    starts = np.diff(parents, prepend=-1) > 0
    return parents[starts], np.cumsum(starts) - 1


def _row_means(members: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean of the values of each row, NaN if all of them are."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.bincount(members, np.where(known, values, 0.0)) / np.bincount(members, known)


class _Heads:
    """Verdicts and null shares by head."""

    def __init__(self, verdicts: Sequence[str]) -> None:
        self._verdicts = verdicts
        self._plain, self._row_sum, self._counts = Tally(1), Tally(1), Tally(len(verdicts))

    def add(self, first: Any) -> None:
        parents, heads = entries(first["heads"])
        if not len(parents):
            return
        keys = heads.field("layer").to_numpy() * LIMIT + heads.field("head").to_numpy()
        verdicts = Names(self._verdicts).codes(heads.field("verdict"))
        self._counts.add(keys, *((verdicts == code).astype(float) for code in range(len(self._verdicts))))
        for tally, name in ((self._plain, "null_share"), (self._row_sum, "null_share_row_sum")):
            values = numbers(heads.field(name))
            known = ~np.isnan(values)
            tally.add(keys[known], values[known])

    def figures(self) -> tuple[HeadFigures, ...]:
        plain, row_sum = self._plain.means(), self._row_sum.means()
        return tuple(
            HeadFigures(
                *divmod(key, LIMIT),
                dict(zip(self._verdicts, map(int, counts), strict=True)),
                *(means[key][0] if key in means else None for means in (plain, row_sum)),
            )
            for key, counts in zip(self._counts.keys.tolist(), self._counts.sums.T, strict=True)
        )


class _Sources:
    """Shares of each method, and its tokens. Sources with score 0 fill up short lists and are not counted."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._methods, self._tokens = Names(methods), Names()
        self._targets, self._spreads = Tally(), {name: Spread() for name in METHOD_FIGURES}
        self._scores = Tally(3)  # times largest, score, |score|

    def add(self, rows: Any) -> None:
        parents, methods = entries(rows["methods"])
        if not len(parents):
            return
        good = methods.filter(methods.field("error").is_null())
        codes = self._methods.codes(good.field("method"))
        self._targets.add(codes)
        for name, spread in self._spreads.items():
            spread.add(codes, numbers(good.field(name)))
        owners, sources = entries(good.field("sources"))
        if not len(owners):
            return
        scores = numbers(sources.field("score"))
        largest = np.diff(owners, prepend=-1) > 0
        keys = codes[owners] * 2**32 + self._tokens.codes(sources.field("token"))
        kept = ~np.isnan(scores) & (scores != 0)
        self._scores.add(keys[kept], largest[kept].astype(float), scores[kept], np.abs(scores[kept]))

    def figures(self) -> tuple[MethodFigures, ...]:
        bands = {name: spread.bands() for name, spread in self._spreads.items()}
        figures = []
        for code, targets in zip(self._targets.keys.tolist(), self._targets.counts.tolist(), strict=True):
            special, own, entropy = (bands[name].get(code) for name in METHOD_FIGURES)
            figures.append(MethodFigures(self._methods[code], targets, special, own, entropy, *self._rankings(code)))
        return tuple(figures)

    def _rankings(self, method: int) -> tuple[tuple[TokenFigures, ...], tuple[TokenFigures, ...]]:
        """The tokens that are most often largest, and those with the largest mean |score|."""
        own = self._scores.keys >> 32 == method
        names, counts = self._tokens.list, self._scores.counts[own]
        largest, score, size = self._scores.sums[:, own]
        tokens = [
            TokenFigures(names[key], *figures)
            for key, *figures in zip(
                (self._scores.keys[own] % 2**32).tolist(),
                largest.astype(int).tolist(),
                counts.tolist(),
                (score / counts).tolist(),
                (size / counts).tolist(),
                strict=True,
            )
        ]
        most_often = (token for token in tokens if token.times_largest)
        largest_mean = (token for token in tokens if token.times_kept >= MIN_TIMES_KEPT)
        return (
            tuple(sorted(most_often, key=lambda t: (-t.times_largest, -t.mean_size, t.token))[:MAX_LISTED]),
            tuple(sorted(largest_mean, key=lambda t: (-t.mean_size, t.token))[:MAX_LISTED]),
        )


class _Agreement:
    """Rank correlation by pair of methods, and the targets where it is lowest on average."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._methods = Names(methods)
        self._correlations, self._undefined = Spread(), Tally(1)
        self.lowest: list[LowAgreement] = []

    def add(self, rows: Any) -> None:
        parents, pairs = entries(rows["agreement"])
        if not len(parents):
            return
        correlation = numbers(pairs.field("correlation"))
        keys = self._methods.codes(pairs.field("method")) * LIMIT + self._methods.codes(pairs.field("other"))
        self._correlations.add(keys, correlation)
        self._undefined.add(keys, np.isnan(correlation).astype(float))
        targets, members = _members(parents)
        means = _row_means(members, correlation)
        texts, places = rows["text"].to_numpy()[targets], rows["target"].to_numpy()[targets]
        means[~(numbers(rows["tokens"])[targets] >= MIN_TOKENS)] = np.nan
        order = np.lexsort((places, texts, means))[:MAX_LISTED]  # NaN last
        candidates = [
            self._low_agreement(rows, int(targets[place]), float(means[place]))
            for place in order
            if not np.isnan(means[place])
        ]
        self.lowest = sorted(
            [*self.lowest, *candidates], key=lambda target: (target.correlation, target.text, target.target)
        )[:MAX_LISTED]

    def _low_agreement(self, rows: Any, row: int, mean: float) -> LowAgreement:
        lowest, method, other = min(
            (pair["correlation"], pair["method"], pair["other"])
            for pair in rows["agreement"][row].as_py()
            if pair["correlation"] is not None
        )
        text, line, target, tokens = (rows[name][row].as_py() for name in ("text", "line", "target", "tokens"))
        return LowAgreement(text, line, target, tokens, mean, method, other, lowest)

    def figures(self) -> tuple[PairAgreement, ...]:
        bands = self._correlations.bands()
        return tuple(
            PairAgreement(self._methods[key // LIMIT], self._methods[key % LIMIT], bands.get(key), int(undefined))
            for key, undefined in zip(self._undefined.keys.tolist(), self._undefined.sums[0], strict=True)
        )
