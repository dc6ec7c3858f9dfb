"""Methods of a report: their rows, pooled predictions, and what is left out."""

from dataclasses import replace

import numpy as np
import pytest

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import SENTENCE, tiny_subject
from thalweg.attribution import packed as budgets
from thalweg.attribution.packed import POOLED
from thalweg.methods import registry
from thalweg.methods.registry import Traits, find_method
from thalweg.reports.explanations import explain_by_all, target_rows

IDS = [5, 9, 6, 17, 8]


def limit(monkeypatch: pytest.MonkeyPatch, name: str, **traits: int) -> None:
    """Change the traits of a method for one test."""
    entry = find_method(name)
    monkeypatch.setitem(registry._methods, name, replace(entry, traits=replace(entry.traits, **traits)))


# --- pooled predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["alti", "attention_rollout", "attention_flow", "raw_attention"])
def test_pooled_prediction_when_explained_then_is_the_mean_of_the_rows_it_is_read_from(
    pooling: tw.Subject, method: str
) -> None:
    capture = pooling.capture_one(IDS)
    assert capture.has_single_answer and capture.readout == (0, 1, 2, 3, 4)
    (packed,) = explain_by_all(pooling, capture, [method], (POOLED,)).packed
    assert packed.targets == (0, 1, 2, 3, 4, POOLED)
    rows = tw.explain(pooling, capture, method, [0, 1, 2, 3, 4]).scores
    assert np.abs(rows - rows.mean(0)).max() > 0.01  # the mean is none of the rows
    np.testing.assert_allclose(packed.scores.unpacked(), [*rows, rows.mean(0)], atol=1e-5)
    np.testing.assert_allclose(packed.received([POOLED]), rows.mean(0), atol=1e-5)


@pytest.mark.parametrize("method", ["decompx", "alti_logit"])
def test_pooled_prediction_when_a_logit_is_explained_then_has_its_single_row(pooling: tw.Subject, method: str) -> None:
    capture = pooling.capture_one(IDS)
    (packed,) = explain_by_all(pooling, capture, [method], (POOLED,)).packed
    assert packed.targets == (POOLED,)
    row = tw.explain(pooling, capture, method).scores
    assert row.shape == (1, 5) and np.abs(row).max() > 0.01
    np.testing.assert_allclose(packed.scores.unpacked(), row, atol=2e-5 * np.abs(row).max())


def test_pooled_prediction_when_only_it_is_affordable_then_has_the_rows_it_is_read_from(
    pooling: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, "alti", max_tokens_all_targets=3)
    explanations = explain_by_all(pooling, pooling.capture_one(IDS), ["alti"], (POOLED,))
    assert explanations.packed[0].targets == (0, 1, 2, 3, 4, POOLED)


def test_prediction_when_read_at_one_position_then_has_no_pooled_row() -> None:
    subject = tiny_subject()
    (packed,) = explain_by_all(subject, subject.capture_one("the cat"), ["alti"], (0,)).packed
    assert packed.targets == (0, 1, 2, 3)


# --- which rows ------------------------------------------------------------------------------------------


def test_rows_when_chosen_then_depend_on_traits_only() -> None:
    subject = tiny_subject()
    capture = subject.capture_one("the cat")  # read at position 0 of 4
    assert target_rows(capture, Traits(), (2,)) == (0, 1, 2, 3)
    assert target_rows(capture, Traits(max_tokens_all_targets=3), (2,)) == (2,)
    assert target_rows(capture, Traits(explains_logit=True), (2,)) == (0,)
    language_model = tiny_subject("gpt2").capture_one("the cat")
    assert target_rows(language_model, Traits(explains_logit=True), (2,)) == tuple(range(len(language_model.tokens)))


def test_rows_when_there_is_an_encoder_then_are_the_decoders_positions() -> None:
    family = BY_NAME["t5"]
    subject = tw.load(family.build())
    capture = subject.capture_one(family.inputs(1, 8))
    first = capture.blocks[-1].queries.start
    assert first > 0
    explanations = explain_by_all(subject, capture, ["alti"], (first,))
    assert explanations.packed[0].targets == tuple(range(first, len(capture.tokens)))
    assert any("encoder" in entry for entry in explanations.left_out)


# --- what is left out --------------------------------------------------------------------------------------


def test_default_method_when_too_expensive_then_is_skipped_with_its_limit_unless_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, "attention_flow", max_tokens=3)
    subject = tiny_subject()
    capture = subject.capture_one("the cat")
    explanations = explain_by_all(subject, capture, None, (0,))
    names = [packed.method for packed in explanations.packed]
    assert names == ["alti", "attention_rollout", "raw_attention", "decompx"]
    (entry,) = [entry for entry in explanations.left_out if entry.startswith("attention_flow: ")]
    assert " 3 tokens" in entry
    assert explain_by_all(subject, capture, ["attention_flow"], (0,)).left_out == ()


def test_default_method_when_the_model_is_not_supported_then_is_left_out_with_the_reason_unless_requested() -> None:
    family = BY_NAME["t5"]
    subject = tw.load(family.build())
    report = tw.report(subject, family.inputs(1, 8))
    names = [packed.method for packed in report.explained]
    assert names == ["alti", "attention_rollout", "attention_flow", "raw_attention"]
    assert any(entry.startswith("decompx: ") and "encoder-decoder" in entry for entry in report.left_out)
    with pytest.raises(tw.InputError, match="encoder-decoder"):
        tw.report(subject, family.inputs(1, 8), ["decompx"])


def test_method_when_its_numbers_exceed_the_budget_then_says_how_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MAX_LINK_BYTES", 400)
    monkeypatch.setattr(budgets, "MAX_SCORE_BYTES", 100)
    limit(monkeypatch, "attention_flow", max_tokens_all_targets=5)
    subject = tiny_subject()
    capture = subject.capture_one(SENTENCE)
    explanations = explain_by_all(subject, capture, ["alti", "attention_flow"], (0,))
    alti, flow = explanations.packed
    assert alti.layers is not None
    kept = (alti.scores.codes.shape[1], alti.layers.codes.shape[1])
    assert kept[0] < len(capture.tokens) > kept[1]
    assert any(entry.startswith(f"alti: scores of the {kept[0]} largest") for entry in explanations.left_out)
    assert any(entry.startswith(f"alti: per-layer maps keep the {kept[1]} largest") for entry in explanations.left_out)
    assert "attention_flow: computed for the initial target only" in explanations.left_out
    assert flow.targets == (0,)
    full = tw.explain(subject, capture, "alti", "all").scores
    scores = alti.scores.unpacked()
    stored = scores != 0
    np.testing.assert_allclose(scores[stored], full[stored], atol=1e-4)


def test_mixing_when_computed_then_is_that_of_the_library_for_methods_with_per_layer_maps() -> None:
    subject = tiny_subject()
    explanations = explain_by_all(subject, subject.capture_one(SENTENCE), ["alti", "raw_attention"], (0,))
    assert explanations.mixing is not None
    assert list(explanations.mixing.figures) == ["alti"]
    own = tw.mixing(subject, SENTENCE, methods=["alti"]).own["alti"]
    np.testing.assert_allclose(explanations.mixing.own["alti"], own, atol=1e-6)
