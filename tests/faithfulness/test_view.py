"""A bench on a terminal."""

from typing import Any

import pytest
from rich.console import Console

from thalweg.faithfulness.registry import find_metrics
from thalweg.faithfulness.result import Bench
from thalweg.faithfulness.row_store import Row, empty_row
from thalweg.files.run_folder import RunHeader

METRICS = find_metrics(["aopc", "blank_out_agreement"], "delete")


def row(example: int, method: str, **known: Any) -> Row:
    return empty_row(example, method, METRICS) | known


def shown(rows: list[Row], *methods: str, width: int = 120) -> str:
    identity = {
        "contrastive": False,
        "methods": list(methods),
        "metrics": [metric.name for metric in METRICS],
        "seed": 3,
        "blank": "[MASK]",
    }
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(Bench.of(rows, RunHeader(identity, {"model": "a model"}), None))
    return console.export_text()


def rows_of(example: int) -> list[Row]:
    ranked = {"tokens": ["good", "bad"]}
    return [
        row(example, "alti", aopc_delete=0.5 + example / 99, scores=[1.0, 2.0], **ranked),
        row(example, "leave_one_out", aopc_delete=0.4, scores=[2.0, 1.0], sum_error=1e-4, **ranked),
        row(example, "random", aopc_delete=0.0, scores=[2.0, 1.0], **ranked),
        row(example, "inverse_alti", aopc_delete=-0.5, scores=[-1.0, -2.0], **ranked),
    ]


METHODS = ("alti", "leave_one_out", "random", "inverse_alti")


def test_table_when_methods_differ_then_has_the_best_first_and_the_differences() -> None:
    text = shown([row for example in range(10) for row in rows_of(example)], *METHODS)
    assert "model a model   10 examples, seed 3, blank token [MASK]" in text
    lines = [line.split() for line in text[: text.index("alti is higher")].splitlines()]
    table = [line for line in lines if line and line[0] in METHODS]
    assert [line[0] for line in table] == ["alti", "leave_one_out", "random", "inverse_alti"]
    assert (table[0][1], table[0][-2:]) == ("+0.545", ["best", "mean"])
    assert "differs by 0.145" in text
    assert "alti is higher than each of the 2 others" in text


def test_metric_when_not_defined_then_has_a_sentence_and_no_table() -> None:
    text = shown(rows_of(0), *METHODS)
    assert "blank_out_agreement_delete ↑" in text
    assert "not defined for any of these inputs" in text


def test_agreement_when_shown_then_leaves_random_scores_out() -> None:
    text = shown([row for example in range(3) for row in rows_of(example)], *METHODS)
    listed = text[text.index("least agreement") : text.index("bootstrap intervals")]
    assert "-1.00  alti, leave_one_out" in listed
    assert "good (2 vs 1 of 2)" in listed
    assert "random" not in listed


@pytest.mark.parametrize(
    ("scores", "source"), [(None, "alti failed on 1 of 1"), ([1.0], "alti: a metric failed on 1 of 1")]
)
def test_failure_when_shown_then_has_its_source_and_error(scores: list[float] | None, source: str) -> None:
    text = shown([row(0, "alti", error="out of [bold]memory", scores=scores, tokens=["x"])], "alti")
    assert f"{source} examples: out of [bold]memory" in text


def test_notes_when_shown_then_have_cost_and_sum_errors() -> None:
    rows = [row | {"method_passes": 2, "metric_requests": 7, "metric_passes": 5} for row in rows_of(0)]
    text = " ".join(shown(rows, *METHODS).split())
    assert "20 for metrics (28 without caching)" in text
    assert "alti 2, leave_one_out 2" in text
    assert "known sum: 1e-04" in text
