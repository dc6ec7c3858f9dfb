"""The result of a bench: statistics over rows, failures, cost, saving and loading."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tw
from tests.tiny import tiny_subject
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.registry import find_metrics
from thalweg.faithfulness.result import Bench, BenchCost, MethodFailures, values_by_method
from thalweg.faithfulness.row_store import Row, empty_row
from thalweg.files.run_folder import RunHeader

TEXTS = ["the old dog runs", "a new cat is good", "the keys are on the table", "this film is bad", "the story is old"]
AOPC = find_metrics(["aopc"], "delete")


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


def row(example: int, method: str, **known: Any) -> Row:
    return empty_row(example, method, AOPC) | known


def result_of(rows: list[Row], *methods: str) -> Bench:
    identity = {"methods": list(methods), "metrics": ["aopc_delete"], "seed": 0, "contrastive": False}
    header = RunHeader(identity, {"model": "m"})
    return Bench.of(rows, header, None)


def test_result_when_rows_are_made_by_hand_then_has_their_means_failures_and_cost() -> None:
    ranked = {"tokens": ["x", "y"], "scores": [1.0, 2.0]}
    result = result_of(
        [
            row(
                3, "a", aopc_delete=0.5, shared_passes=2, method_passes=4, metric_passes=1, metric_requests=6, **ranked
            ),
            row(3, "b", aopc_delete=0.1, metric_passes=3, metric_requests=6, **ranked),
            row(7, "a", aopc_delete=0.7, shared_passes=2, method_passes=4, **ranked),
            row(7, "b", error="it broke"),
            row(9, "b", error="naopc: too long", **ranked),
        ],
        "a",
        "b",
    )
    assert result.examples == 3
    assert (result.means["aopc_delete"]["a"].mean, result.means["aopc_delete"]["a"].count) == (pytest.approx(0.6), 2)
    assert result.values("aopc_delete")["b"][0] == 0.1
    assert np.isnan(result.values("aopc_delete")["b"][1:]).all()
    assert result.failures == {"b": MethodFailures(2, 1, "it broke")}
    assert result.cost == BenchCost({"a": 8, "b": 0}, 4, 12, 4)
    assert result.cost.total == 16
    assert result.agreements[0].correlation.count == 1


def test_values_when_examples_are_missing_then_are_in_order_without_gaps() -> None:
    rows = [row(5, "a", aopc_delete=0.5), row(2, "a", aopc_delete=0.2)]
    assert values_by_method(rows, ["a"], "aopc_delete")["a"] == pytest.approx([0.2, 0.5])


def test_pairs_when_there_are_inverses_then_each_is_tested_against_its_own_only() -> None:
    methods = ("a", "inverse_a", "b", "inverse_b")
    result = result_of([row(0, method, aopc_delete=0.1) for method in methods], *methods)
    tested = [(test.first, test.second) for test in result.pairs["aopc_delete"]]
    assert tested == [("a", "b"), ("a", "inverse_a"), ("b", "inverse_b")]


def test_result_when_there_are_no_rows_yet_then_is_empty() -> None:
    result = result_of([], "a", "b")
    assert (result.examples, result.means["aopc_delete"]["a"].count, result.agreements) == (0, 0, [])


def test_ranking_and_inverse_when_compared_then_share_scores_and_bracket(subject: tw.Subject) -> None:
    result = bench(subject, TEXTS, ["leave_one_out"], ["aopc"], inverses=True)
    means = result.means["aopc_delete"]
    assert means["leave_one_out"].mean > means["inverse_leave_one_out"].mean
    assert result.cost.methods["inverse_leave_one_out"] == 0


def test_methods_when_they_are_the_same_then_no_difference_is_found(subject: tw.Subject) -> None:
    result = bench(subject, TEXTS * 2, ["gradient_norm", "attention_rollout", "attention_rollout:layer=2"], ["aopc"])
    same = next(pair for pair in result.agreements if pair.first == "attention_rollout")
    assert same.correlation.mean == pytest.approx(1)
    assert same.tokens == ()
    other = next(pair for pair in result.agreements if pair.second == "attention_rollout")
    assert other.correlation.mean < 1
    assert other.tokens
    test = result.pairs["aopc_delete"][-1]
    assert (test.difference.mean, test.p, test.differ) == (0, 1, False)


def test_reference_when_agreement_with_it_is_measured_then_does_not_compete(subject: tw.Subject) -> None:
    result = bench(subject, TEXTS * 2, ["leave_one_out", "alti", "random"], ["blank_out_agreement"])
    assert result.means["blank_out_agreement_delete"]["leave_one_out"].mean == pytest.approx(1)
    assert result.verdicts["blank_out_agreement_delete"].leader == "alti"


def test_failures_when_only_a_metric_failed_then_the_method_has_scores(bundled: tw.Subject) -> None:
    result = bench(bundled, ["a witty movie " * 36], ["random"], ["aopc", "naopc"])
    assert (result.failures["random"].count, result.failures["random"].without_scores) == (1, 0)
    assert result.means["aopc_delete"]["random"].count == 1


def test_dict_when_a_value_is_not_finite_then_is_none(subject: tw.Subject) -> None:
    (metric,) = bench(subject, TEXTS[:1], ["random"], ["cue_rank"]).to_dict()["metrics"]
    mean = metric["means"]["random"]
    assert (mean["count"], mean["low"], mean["high"]) == (0, None, None)


def test_interval_when_there_is_one_example_then_is_the_range_of_the_metric_and_its_answer() -> None:
    pair = BenchExample("the key is the", good="key", bad="the")
    for example, largest in ((BenchExample("the key is the"), 1), (pair, 2)):
        mean = bench(tiny_subject("gpt2"), [example], ["random"], ["aopc"]).means["aopc_delete"]["random"]
        assert (mean.count, mean.low, mean.high) == (1, -largest, largest)


def test_text_when_not_valid_unicode_then_its_row_can_still_be_loaded(
    subject: tw.Subject, tmp_path: Path, as_a_user: None
) -> None:
    result = bench(subject, ["the \ud800 dog", TEXTS[0]], ["random"], ["aopc"], folder=tmp_path)
    assert [entry["error"] is None for entry in result.rows] == [False, True]
    assert Bench.load(tmp_path).to_dict() == result.to_dict()


def test_folder_when_it_holds_no_bench_then_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="not the folder of a bench run"):
        Bench.load(tmp_path)
