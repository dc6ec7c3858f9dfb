"""Reports as results: headline, saving, notebooks."""

import html
import re
from pathlib import Path

import pytest

import thalweg as tw
from tests.tiny import tiny_subject

TEXT = "a gorgeous, witty, seductive movie."


def test_headline_when_the_first_method_does_not_explain_the_target_then_the_next_does(bundled: tw.Subject) -> None:
    report = tw.report(bundled, "a witty movie", methods=["decompx", "alti"], target="witty")
    assert report.headline().startswith("By alti, ‘witty’ ")
    alone = tw.report(bundled, "a witty movie", methods=["decompx"], target="witty")
    assert "alti" not in alone.headline() and "explains this target" in alone.headline()
    assert alone.to_html().startswith("<!doctype html>")


def test_headline_when_there_are_several_targets_then_names_all_and_takes_their_mean(bundled: tw.Subject) -> None:
    report = tw.report(bundled, "a witty movie", methods=["alti"], target=[2, 3])
    assert "‘witty’ and ‘movie’" in report.headline()
    row = report.explained[0].received((2, 3))
    assert row == pytest.approx(tw.explain(bundled, "a witty movie", "alti", [2, 3]).scores.mean(0), abs=1e-3)


def test_headline_when_the_target_was_generated_then_names_the_generated_token() -> None:
    report = tw.report(tiny_subject("gpt2"), "the keys", ["alti"], generate=3)
    assert report.prompt is not None
    assert f"‘{report.tokens.pieces[report.prompt]}’" in report.headline() or report.prediction is not None
    assert report._name(report.prompt - 1) == report.tokens.pieces[report.prompt]
    assert report._name(0) == report.tokens.pieces[0]


def test_page_when_saved_then_is_what_is_shown(bundled: tw.Subject, tmp_path: Path) -> None:
    report = tw.report(bundled, TEXT, ["alti"])
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.to_html()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_results_when_shown_in_a_notebook_then_have_a_frame_of_their_own(bundled: tw.Subject) -> None:
    both = tw.compare(bundled, TEXT, ["alti", "raw_attention"])
    results = (both, both.attributions[0], tw.trust(bundled, TEXT), tw.report(bundled, TEXT, ["alti"]))
    for result in results:
        shown = result._repr_html_()
        assert shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown
        inside = html.unescape(re.search(r'srcdoc="([^"]*)"', shown).group(1))  # pyright: ignore
        assert inside == result.to_html()
