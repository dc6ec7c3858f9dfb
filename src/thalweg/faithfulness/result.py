"""The result of a bench: means with intervals, paired tests, verdicts, agreement between methods, cost and failures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from thalweg.faithfulness.agreement import ExampleScores, MethodAgreement, agreements
from thalweg.faithfulness.rankers import inverse_name, is_inverse
from thalweg.faithfulness.registry import Metric, find_metrics
from thalweg.faithfulness.row_store import BENCH_RUN, Row, read_rows
from thalweg.faithfulness.statistics import Mean, PairedTest, means, paired_tests
from thalweg.faithfulness.verdicts import Verdict, judge
from thalweg.files.records import read_as, reading, require
from thalweg.files.run_folder import RunHeader, read_header
from thalweg.jsonable import jsonable

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class MethodFailures:
    """The number of examples with an error, how many of them have no scores, and the first error.

    An example that has scores and an error was ranked, but a metric failed on it.
    """

    count: int
    without_scores: int
    first_error: str


@dataclass(frozen=True)
class BenchCost:
    """Forward passes per example: for the scores of each method, for all metrics, and shared by all methods.

    The capture and the answer of each example are shared. The short passes that learn a model's wiring are not counted.
    `metric_requests` is the number of inputs that metrics asked for, including those that had run before.
    """

    methods: Mapping[str, int]
    metrics: int
    metric_requests: int
    shared: int

    @property
    def total(self) -> int:
        return sum(self.methods.values()) + self.metrics + self.shared


@dataclass(frozen=True, eq=False)
class Bench:
    """Methods against metrics on the examples of a run.

    `rows` is the content of the Parquet file, `configuration` the identity of the run: its options, and digests of the
    model and the examples.
    """

    rows: Sequence[Row]
    methods: tuple[str, ...]
    metrics: tuple[Metric, ...]
    means: Mapping[str, Mapping[str, Mean]]  # by metric, by method
    pairs: Mapping[str, Sequence[PairedTest]]  # by metric
    verdicts: Mapping[str, Verdict]  # by metric
    agreements: Sequence[MethodAgreement]
    failures: Mapping[str, MethodFailures]  # by method
    cost: BenchCost
    examples: int
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]
    folder: str | None = None

    @staticmethod
    def of(rows: Sequence[Row], header: RunHeader, folder: Path | None) -> "Bench":
        """Statistics and verdicts over the rows of a run, complete or not."""
        methods, seed = tuple(header.identity["methods"]), header.identity["seed"]
        metrics = find_metrics(header.identity["metrics"], "delete")
        answer = (-1.0, 1.0) if header.identity["contrastive"] else (0.0, 1.0)
        limits = {metric.name: metric.limits_for(answer) for metric in metrics}
        tables = {metric.name: values_by_method(rows, methods, metric.name) for metric in metrics}
        mean_tables = {
            name: dict(zip(methods, means(np.stack(list(table.values()), 1), seed, limits[name]), strict=True))
            for name, table in tables.items()
        }
        pairs = _tested_pairs(methods)
        tests = {name: paired_tests(table, pairs, seed, limits[name]) for name, table in tables.items()}
        plain = [name for name in methods if not is_inverse(name)]
        return Bench(
            rows=rows,
            methods=methods,
            metrics=metrics,
            means=mean_tables,
            pairs=tests,
            verdicts={metric.name: judge(metric, mean_tables[metric.name], tests[metric.name]) for metric in metrics},
            agreements=agreements(_scores_by_example(rows), plain, seed),
            failures=_failures(rows),
            cost=_cost(rows, methods),
            examples=len({row["example"] for row in rows}),
            configuration=dict(header.identity),
            provenance=dict(header.provenance),
            folder=None if folder is None else str(folder),
        )

    @staticmethod
    def load(folder: str | Path) -> "Bench":
        """Read a run from its folder, also while it is running."""
        path = Path(folder)
        with reading(path, "a bench run"):
            header = read_header(path, BENCH_RUN)
            methods = read_as(_Options, header.identity, "identity").methods
            provenance = read_as(Mapping[str, str], header.provenance, "provenance")
            require("model" in provenance, "provenance.model is missing")
            metrics = [metric.name for metric in find_metrics(header.identity["metrics"], "delete")]
            rows = read_rows(path)
            for row in rows:
                checked = read_as(_Row, row, "row")
                require(checked.method in methods, f"row.method must be one of {', '.join(methods)}")
                require(len(checked.tokens or ()) == len(checked.scores or ()), "row.tokens and row.scores must agree")
                read_as(Mapping[str, float | None], {name: row[name] for name in metrics}, "row")
            return Bench.of(rows, header, path)

    def values(self, metric: str) -> dict[str, Float[np.ndarray, " input"]]:
        """The values of one metric by method, one per example; NaN where there is none."""
        return values_by_method(self.rows, self.methods, metric)

    def __rich__(self) -> "RenderableType":
        from thalweg.faithfulness.view import bench_text

        return bench_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything except the rows, ready for JSON."""
        return jsonable(
            {
                "metrics": [self._metric_dict(metric) for metric in self.metrics],
                "agreements": [asdict(agreement) for agreement in self.agreements],
                "failures": {name: asdict(failures) for name, failures in self.failures.items()},
                "cost": {**asdict(self.cost), "total": self.cost.total},
                "examples": self.examples,
                "configuration": self.configuration,
                "provenance": self.provenance,
                "folder": self.folder,
            }
        )

    def _metric_dict(self, metric: Metric) -> dict[str, Any]:
        return {
            "name": metric.name,
            "direction": metric.direction,
            "operator": metric.operator,
            "role": metric.role,
            "verdict": asdict(self.verdicts[metric.name]),
            "means": {name: asdict(mean) for name, mean in self.means[metric.name].items()},
            "pairs": [{**asdict(test), "differ": test.differ} for test in self.pairs[metric.name]],
        }


@dataclass(frozen=True)
class _Options:
    """The options of a run that its results need later."""

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    seed: int
    blank: Any


@dataclass(frozen=True)
class _Row:
    """The columns of a row that every bench has."""

    example: int
    method: str
    error: str | None
    prediction: str | None
    answer: float | None
    seconds: float | None
    sum_error: float | None
    scores: tuple[float, ...] | None
    tokens: tuple[str, ...] | None
    shared_passes: int
    method_passes: int
    metric_passes: int
    metric_requests: int


def values_by_method(
    rows: Sequence[Row], methods: Sequence[str], metric: str
) -> dict[str, Float[np.ndarray, " input"]]:
    """One value per example and method, NaN where there is none."""
    places = {example: place for place, example in enumerate(sorted({row["example"] for row in rows}))}
    table = {name: np.full(len(places), np.nan) for name in methods}
    for row in rows:
        if row[metric] is not None:
            table[row["method"]][places[row["example"]]] = row[metric]
    return table


def _tested_pairs(methods: Sequence[str]) -> list[tuple[str, str]]:
    """All methods against each other, and each against its inverse."""
    plain = [name for name in methods if not is_inverse(name)]
    return [
        *combinations(plain, 2),
        *((name, inverse_name(name)) for name in plain if inverse_name(name) in methods),
    ]


def _scores_by_example(rows: Sequence[Row]) -> list[ExampleScores]:
    ranked: dict[int, list[Row]] = {}
    for row in rows:
        if row["scores"] is not None:
            ranked.setdefault(row["example"], []).append(row)
    return [
        ExampleScores(example, own[0]["tokens"], {row["method"]: row["scores"] for row in own})
        for example, own in ranked.items()
    ]


def _failures(rows: Sequence[Row]) -> dict[str, MethodFailures]:
    failed: dict[str, list[Row]] = {}
    for row in rows:
        if row["error"] is not None:
            failed.setdefault(row["method"], []).append(row)
    return {
        name: MethodFailures(len(own), sum(row["scores"] is None for row in own), own[0]["error"])
        for name, own in failed.items()
    }


def _cost(rows: Sequence[Row], methods: Sequence[str]) -> BenchCost:
    def total(column: str) -> int:
        return sum(row[column] for row in rows)

    own = {name: sum(row["method_passes"] for row in rows if row["method"] == name) for name in methods}
    return BenchCost(own, total("metric_passes"), total("metric_requests"), total("shared_passes"))
