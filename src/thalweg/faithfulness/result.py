"""What a bench found: means with intervals, tests, verdicts, agreement between methods, cost and failures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from thalweg.faithfulness.agreement import Agreement, Scored, agreements
from thalweg.faithfulness.rankers import INVERSE
from thalweg.faithfulness.registry import Metric, find_metrics
from thalweg.faithfulness.statistics import Mean, Pair, means, pairs
from thalweg.faithfulness.storage import Row, read_header, read_rows
from thalweg.faithfulness.verdicts import Verdict, judged

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Failure:
    """How many examples have an error with a method, on how many of them it has no scores, and what the first said.

    Where it has scores, a metric failed on them.
    """

    count: int
    without_scores: int
    first: str


@dataclass(frozen=True)
class Cost:
    """Forward passes of one example each: by method for its scores, for the metrics of all, and what methods share.

    What is shared is the capture of each example and its answer. Not counted are the short passes that learn a model's
    wiring, once for each time that it is loaded. `asked` is how many the metrics would have taken if nothing were kept
    and no input came twice.
    """

    methods: Mapping[str, int]
    metrics: int
    asked: int
    shared: int

    @property
    def total(self) -> int:
        return sum(self.methods.values()) + self.metrics + self.shared


@dataclass(frozen=True, eq=False)
class Bench:
    """Methods against metrics on the examples of a run. `rows` are what the Parquet file holds."""

    rows: Sequence[Row]
    methods: tuple[str, ...]
    metrics: tuple[Metric, ...]
    means: Mapping[str, Mapping[str, Mean]]  # by metric, by method
    pairs: Mapping[str, Sequence[Pair]]  # by metric
    verdicts: Mapping[str, Verdict]  # by metric
    agreements: Sequence[Agreement]
    failures: Mapping[str, Failure]
    cost: Cost
    examples: int
    configuration: Mapping[str, Any]
    provenance: Mapping[str, str]
    folder: str | None = None

    @staticmethod
    def of(
        rows: Sequence[Row], configuration: Mapping[str, Any], provenance: Mapping[str, str], folder: Path | None
    ) -> "Bench":
        """Statistics over rows, whole or as far as a run came."""
        methods, seed = tuple(configuration["methods"]), configuration["seed"]
        metrics = find_metrics(configuration["metrics"], "delete")
        asked = _asked(methods)
        found: dict[str, dict[str, Mean]] = {}
        tests: dict[str, list[Pair]] = {}
        examples = sorted({row["example"] for row in rows})
        for metric in metrics:
            table = _table(rows, methods, examples, metric.name)
            found[metric.name] = dict(zip(methods, means(np.stack(list(table.values()), 1), seed), strict=True))
            tests[metric.name] = pairs(table, asked, seed)
        contenders = [name for name in methods if not name.startswith(INVERSE)]
        return Bench(
            rows=rows,
            methods=methods,
            metrics=metrics,
            means=found,
            pairs=tests,
            verdicts={one.name: judged(one, found[one.name], tests[one.name]) for one in metrics},
            agreements=agreements(_scored(rows), contenders, seed),
            failures=_failures(rows),
            cost=_cost(rows, methods),
            examples=len(examples),
            configuration=dict(configuration),
            provenance=dict(provenance),
            folder=None if folder is None else str(folder),
        )

    @staticmethod
    def load(folder: str | Path) -> "Bench":
        """What a run wrote into its folder, also if it is not at its end."""
        folder = Path(folder)
        header = read_header(folder)
        return Bench.of(read_rows(folder), header["configuration"], header["provenance"], folder)

    def values(self, metric: str) -> dict[str, Float[np.ndarray, " input"]]:
        """One metric's values by method, one for each example; NaN where there is none."""
        return _table(self.rows, self.methods, sorted({row["example"] for row in self.rows}), metric)

    def __rich__(self) -> "RenderableType":
        from thalweg.faithfulness.view import bench_text

        return bench_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows as plain lists and numbers, ready for JSON."""
        return plain(
            {
                "metrics": [
                    {
                        "name": one.name,
                        "direction": one.direction,
                        "operator": one.operator,
                        "role": one.role,
                        "verdict": asdict(self.verdicts[one.name]),
                        "means": {name: asdict(mean) for name, mean in self.means[one.name].items()},
                        "pairs": [{**asdict(pair), "differ": pair.differ} for pair in self.pairs[one.name]],
                    }
                    for one in self.metrics
                ],
                "agreements": [asdict(one) for one in self.agreements],
                "failures": {name: asdict(one) for name, one in self.failures.items()},
                "cost": {**asdict(self.cost), "total": self.cost.total},
                "examples": self.examples,
                "configuration": dict(self.configuration),
                "provenance": dict(self.provenance),
                "folder": self.folder,
            }
        )


def _asked(methods: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs that are tested: all methods with each other, and each with its inverse."""
    plain = [name for name in methods if not name.startswith(INVERSE)]
    found = [(first, second) for place, first in enumerate(plain) for second in plain[place + 1 :]]
    return found + [(name, f"{INVERSE}{name}") for name in plain if f"{INVERSE}{name}" in methods]


def _table(
    rows: Sequence[Row], methods: Sequence[str], examples: Sequence[int], metric: str
) -> dict[str, Float[np.ndarray, " input"]]:
    places = {example: place for place, example in enumerate(examples)}
    table = {name: np.full(len(examples), np.nan) for name in methods}
    for row in rows:
        if row[metric] is not None:
            table[row["method"]][places[row["example"]]] = row[metric]
    return table


def _scored(rows: Sequence[Row]) -> list[Scored]:
    found: dict[int, Scored] = {}
    for row in rows:
        if row["scores"] is not None:
            one = found.setdefault(row["example"], Scored(row["example"], row["tokens"], {}))
            assert isinstance(one.scores, dict)
            one.scores[row["method"]] = row["scores"]
    return list(found.values())


def _failures(rows: Sequence[Row]) -> dict[str, Failure]:
    found: dict[str, Failure] = {}
    for row in rows:
        if row["error"] is not None:
            known = found.get(row["method"], Failure(0, 0, row["error"]))
            without = known.without_scores + (row["scores"] is None)
            found[row["method"]] = Failure(known.count + 1, without, known.first)
    return found


def _cost(rows: Sequence[Row], methods: Sequence[str]) -> Cost:
    own = {name: sum(row["passes"] for row in rows if row["method"] == name) for name in methods}
    metrics, asked, shared = (sum(row[name] for row in rows) for name in ("metric_passes", "asked", "shared_passes"))
    return Cost(own, metrics, asked, shared)


def plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value
