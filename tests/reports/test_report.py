"""Reports from a text: initial target, arguments, and what long texts leave out."""

from typing import Any

import pytest

import thalweg as tw
from tests.tiny import SENTENCE, snapshot, tiny_subject
from thalweg.attribution.packed import POOLED
from thalweg.reports import explanations, head_maps


def test_report_when_the_prediction_is_pooled_then_opens_with_all_positions(pooling: tw.Subject) -> None:
    capture = pooling.capture_one([5, 9, 6, 17, 8])
    assert len(capture.readout) > 1
    report = tw.report(pooling, capture, ["alti", "decompx"], intervals=True)
    assert report.target == (POOLED,)
    assert report.prediction == pooling.output_name(int(capture.logits.argmax()))  # pyright: ignore
    assert all(POOLED in packed.targets for packed in report.explained)
    assert report.outputs == ()
    assert {(entry.layer, entry.head) for entry in report.intervals} == {(i, j) for i in range(3) for j in range(4)}
    assert set(report.intervals[0].targets.tolist()) == set(capture.readout)
    best = report.tokens.pieces[int(tw.explain(pooling, capture, "alti").scores[0].argmax())]
    assert f"The prediction is ‘{report.prediction}’ (" in report.headline() and f"from {best} (" in report.headline()


def test_report_when_the_prediction_is_read_at_one_position_then_opens_there() -> None:
    subject = tiny_subject()
    report = tw.report(subject, "the cat", ["alti"])
    assert report.target == (0,) and report.prediction is not None
    other = tw.report(subject, "the cat", ["alti"], target="cat")
    assert other.target == (2,) and other.prediction is None


def test_report_when_the_model_makes_no_prediction_then_opens_with_the_first_word() -> None:
    report = tw.report(tiny_subject("modernbert"), SENTENCE, ["alti"])
    assert report.target == (1,) and report.prediction is None


def test_report_when_text_is_long_then_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.reports.report.MAX_CERTIFIED_TOKENS", 5)
    monkeypatch.setattr(head_maps, "MAX_CERTIFIED_TOKENS", 5)
    monkeypatch.setattr(explanations, "MAX_MIXING_TOKENS", 6)
    monkeypatch.setattr(head_maps, "MAX_CELLS", 1)
    report = tw.report(tiny_subject(), " ".join([SENTENCE] * 2), ["alti"])
    left_out = dict(entry.split(": ", 1) for entry in report.left_out)
    assert "5 tokens" in left_out["certificate"] and "thalweg trust" in left_out["certificate"]
    assert "6 tokens" in left_out["mixing"] and "thalweg mix" in left_out["mixing"]
    assert "2 × 2 tokens" in left_out["head maps at full resolution"]
    assert "not requested" in left_out["intervals"]
    assert report.certificate is None and report.mixing is None and report.intervals == ()


def test_report_when_intervals_are_requested_then_has_them_for_every_head() -> None:
    report = tw.report(tiny_subject(), "the cat", ["alti"], intervals=True)
    assert len(report.intervals) == 12
    assert not any(entry.startswith("intervals") for entry in report.left_out)


def test_report_when_a_language_model_continues_then_opens_with_its_first_token() -> None:
    subject = tiny_subject("gpt2")
    report = tw.report(subject, "the keys", ["alti"], generate=4)
    assert report.prompt is not None and report.target == (report.prompt - 1,)
    assert len(report.outputs) == len(report.tokens)
    capture = subject.capture_one([int(token or 0) for token in report.tokens.ids])
    assert capture.logits is not None
    choices = [subject.output_name(choice) for choice in capture.logits.argmax(-1).tolist()]
    assert [output.name for output in report.outputs if output] == choices


@pytest.mark.parametrize(
    ("family", "options", "facts"),
    [
        ("bert", {"generate": 2}, ("causal language model",)),
        ("bert", {"methods": []}, ("different methods", "[]")),
        ("bert", {"methods": "alti"}, ("list", "'alti'")),
        ("bert", {"methods": ["alti", "alti"]}, ("different methods", "['alti', 'alti']")),
        ("bert", {"methods": ["alchemy"]}, ("unknown method", "'alchemy'")),
        ("bert", {"target": "dog"}, ("'dog'", "does not occur")),
    ],
)
def test_report_when_an_argument_is_wrong_then_the_error_has_its_value(
    family: str, options: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with pytest.raises(tw.InputError) as caught:
        tw.report(tiny_subject(family), "the cat", **options)
    assert all(fact in str(caught.value) for fact in facts)


def test_model_when_reported_on_then_is_left_unchanged() -> None:
    subject = tiny_subject("gpt2")
    before = snapshot(subject.model)
    tw.report(subject, "the keys", ["alti"], generate=2)
    assert snapshot(subject.model) == before
