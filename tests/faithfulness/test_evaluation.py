"""Rows of one example: scores, values, cost, and errors where they belong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.encoders.training.corpus import tiny_bert
from tests.faithfulness.cases import subject_of
from tests.tiny import snapshot, tiny_subject, wordpiece
from thalweg.faithfulness import bounds, registry
from thalweg.faithfulness.case import Case
from thalweg.faithfulness.evaluation import Evaluation
from thalweg.faithfulness.examples import BenchExample
from thalweg.faithfulness.rankers import find_rankers
from thalweg.faithfulness.registry import baseline, find_metrics
from thalweg.faithfulness.row_store import Row
from thalweg.methods.registry import Maps

TEXT = "the old dog runs"


def evaluate(
    methods: list[str], metrics: list[str], text: str = TEXT, subject: tw.Subject | None = None, **options: Any
) -> list[Row]:
    found = find_rankers(methods), find_metrics(metrics, "delete")
    return Evaluation(subject or subject_of("bert"), *found, **options).rows(0, BenchExample(text))


@dataclass(frozen=True)
class Params:
    pass


@pytest.fixture
def toy_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three baselines: one raises, one is constant, one returns NaN."""

    def fragile(case: Case, params: Params) -> Maps:
        raise RuntimeError("it broke")

    def constant(case: Case, params: Params) -> Maps:
        return Maps(torch.ones(1, len(case.original), dtype=torch.float64))

    def broken(case: Case, params: Params) -> Maps:
        return Maps(torch.full((1, len(case.original)), float("nan"), dtype=torch.float64))

    monkeypatch.setattr(registry, "_baselines", {**registry.list_baselines()})
    for function in (fragile, constant, broken):
        baseline(params=Params, paper="–", cost="–", guarantee="–")(function)


def test_rows_when_everything_works_then_have_scores_and_values() -> None:
    first, second = evaluate(["alti", "random"], ["aopc"])
    assert (first["method"], second["method"]) == ("alti", "random")
    assert first["tokens"] == TEXT.split()
    assert len(first["scores"]) == 4
    logits = subject_of("bert").capture(TEXT).logits
    assert logits is not None
    assert first["answer"] == second["answer"] == pytest.approx(float(logits.double().softmax(-1).max()), abs=1e-6)
    assert first["prediction"] == f"LABEL_{int(logits.argmax())}"
    assert first["aopc_delete"] != second["aopc_delete"]
    assert (first["error"], first["sum_error"]) == (None, None)


def test_method_when_it_fails_then_only_its_row_has_the_error(toy_baselines: None) -> None:
    fragile, random = evaluate(["fragile", "random"], ["aopc"])
    assert (fragile["error"], fragile["scores"], fragile["aopc_delete"]) == ("RuntimeError: it broke", None, None)
    assert (random["error"], random["aopc_delete"] is None) == (None, False)


def test_scores_when_not_finite_then_are_the_methods_error(toy_baselines: None) -> None:
    broken, random = evaluate(["broken", "random"], ["aopc"])
    assert "broken must return finite scores of shape (1, 6)" in broken["error"]
    assert random["error"] is None


def test_scores_when_constant_then_keep_the_order_of_the_text_and_have_no_correlation(toy_baselines: None) -> None:
    constant, alti = evaluate(["constant", "alti"], ["aopc", "blank_out_agreement", "randomisation"])
    assert constant["error"] is None
    assert constant["aopc_delete"] is not None
    for metric in ("blank_out_agreement_delete", "randomisation"):
        assert (constant[metric], alti[metric] is None) == (None, False)


@pytest.mark.parametrize(
    ("text", "error"),
    [("   ", "is empty"), ("a cat and a dog and a cat", "max_tokens=6"), ("the \ud800 dog", "nicode")],
)
def test_example_when_it_cannot_be_captured_then_every_row_has_the_error(
    as_a_user: None, text: str, error: str
) -> None:
    rows = evaluate(["random", "alti"], ["aopc"], text, max_tokens=6)
    assert len(rows) == 2
    assert all(error in row["error"] for row in rows)
    assert all(row["error"].encode() for row in rows)


def test_metric_when_a_text_is_too_long_for_it_then_the_others_have_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_TOKENS", 3)
    (row,) = evaluate(["random"], ["aopc", "naopc"])
    assert row["aopc_delete"] is not None
    assert row["naopc_delete"] is None
    assert row["error"].startswith("naopc_delete: ")
    assert "about 80 passes" in row["error"]


def test_seed_when_it_cannot_read_a_text_then_only_its_metric_fails() -> None:
    """The other seed has 32 positions, the model 64."""
    short = tw.load(tiny_bert().eval(), wordpiece())
    rows = evaluate(["gradient_norm", "random"], ["aopc", "seed_robustness"], "dog " * 40, other_seeds=(short,))
    for row in rows:
        assert row["aopc_delete"] is not None
        assert row["seed_robustness"] is None
        assert row["error"].startswith("seed_robustness: the input has 42 tokens")


def test_other_models_when_compared_then_random_scores_differ_and_the_model_is_left_alone() -> None:
    subject = tiny_subject("bert")
    before = snapshot(subject.model)
    rankers, metrics = find_rankers(["alti", "random"]), find_metrics(["randomisation", "seed_robustness"], "delete")
    comparison = Evaluation(subject, rankers, metrics, (tiny_subject("bert"),))
    texts = (TEXT, "a new cat is good", "the keys are on the table", "this film is bad", "the story is old")
    rows = [comparison.rows(number, BenchExample(text)) for number, text in enumerate(texts)]
    assert snapshot(subject.model) == before
    assert not any(row["error"] for pair in rows for row in pair)
    assert [alti["seed_robustness"] for alti, _ in rows] == pytest.approx([1] * len(texts))
    assert np.mean([random["seed_robustness"] for _, random in rows]) < 0.9
    assert np.mean([alti["randomisation"] for alti, _ in rows]) < 0.999


def test_shuffled_weights_when_no_metric_needs_them_then_are_not_made() -> None:
    rankers = find_rankers(["random"])
    assert Evaluation(subject_of("bert"), rankers, find_metrics(["aopc"], "delete")).shuffled_subject is None
    gated = Evaluation(subject_of("bert"), rankers, find_metrics(["randomisation"], "delete"))
    assert gated.shuffled_subject is gated.shuffled_subject is not None


def test_cost_when_inputs_repeat_then_counts_each_once() -> None:
    first, second = evaluate(["leave_one_out", "occlusion:window=1"], ["comprehensiveness", "aopc"])
    count = len(TEXT.split())
    assert (first["method_passes"], second["method_passes"]) == (count, count + 1)  # and one to embed blanks
    assert (first["shared_passes"] > 0, second["shared_passes"]) == (True, 0)  # the capture with its proof
    assert first["metric_passes"] < first["metric_requests"]


def test_cost_when_a_method_reads_the_capture_only_then_is_zero() -> None:
    (row,) = evaluate(["alti"], ["aopc"])
    assert (row["method_passes"], row["metric_passes"]) == (0, len(TEXT.split()))


def test_cost_when_a_metric_runs_inputs_of_a_later_method_then_the_method_still_pays() -> None:
    _, paid = evaluate(["random", "leave_one_out"], ["blank_out_agreement"])
    assert paid["method_passes"] == len(TEXT.split())


def test_pairs_of_words_when_a_causal_model_reads_them_then_the_cue_is_ranked() -> None:
    example = BenchExample("the key is the", cue=((4, 7),), good="key", bad="the")
    rankers, metrics = find_rankers(["alti", "alti_logit", "gradient_norm"]), find_metrics(["cue_rank"], "pad")
    rows = Evaluation(tiny_subject("gpt2"), rankers, metrics).rows(0, example)
    assert [row["error"] for row in rows] == [None] * 3
    assert all(0 < row["cue_rank"] <= 1 for row in rows)
