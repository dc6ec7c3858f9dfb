"""What a report's page, text and figure hold."""

import re
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import thalweg as tw
from tests.families import BY_NAME
from tests.payloads import decode, payload_of, rows_of
from tests.tiny import tiny_subject, wordpiece
from thalweg.reports.view import report_figure

TEXT = "a gorgeous, witty, seductive movie that never quite manages to make its characters as real as its places."


# --- the page --------------------------------------------------------------------------------------------


def test_payload_when_read_back_then_holds_scores_maps_heads_and_receipts(bundled: tw.Subject) -> None:
    report = tw.report(bundled, TEXT, methods=["alti", "attention_rollout", "attention_flow", "decompx"])
    data, buffer = decode(payload_of(report.to_html()))
    assert [method["name"] for method in data["methods"]] == ["alti", "attention_rollout", "attention_flow", "decompx"]
    for method in data["methods"][:3]:
        attribution = tw.explain(bundled, TEXT, method["name"], "all")
        np.testing.assert_allclose(rows_of(method["scores"], buffer), attribution.scores, atol=1e-5)
        assert attribution.per_layer is not None
        layers = rows_of(method["layers"], buffer).reshape(attribution.per_layer.shape)
        np.testing.assert_allclose(layers, attribution.per_layer, atol=2.1e-3)
    rollout, flow = data["methods"][1:3]
    assert rollout["layers"]["codes"] == flow["layers"]["codes"]  # equal maps are stored once
    assert (rollout["chain"], flow["chain"]) == ("product", "flow")
    signed = tw.explain(bundled, TEXT, "decompx")
    np.testing.assert_allclose(rows_of(data["methods"][3]["scores"], buffer), signed.scores, atol=1e-4)
    assert data["methods"][3]["targets"] == [0] and data["methods"][3]["signed"]
    assert set(data["mixing"]) == {"alti", "attention_rollout", "attention_flow"}
    own = tw.mixing(bundled, TEXT, methods=["alti"]).own["alti"]
    np.testing.assert_allclose(data["mixing"]["alti"]["own"], own, atol=1e-6)
    assert data["certificate"]["counts"] == dict(tw.trust(bundled, TEXT).counts())
    assert {check["name"] for check in data["methods"][0]["receipt"]["checks"]} == {"parity", "sum of parts", "chain"}
    assert [entry["layer"] for entry in data["maps"]] == [0, 1, 2, 3]
    weights = report.heads[1].weights.unpacked()
    np.testing.assert_allclose(rows_of(data["maps"][1]["weights"], buffer), weights)


def test_texts_in_the_payload_when_they_hold_control_characters_then_are_spelled_out() -> None:
    report = tw.report(tiny_subject(), "the \u202e cat", methods=["alti"])
    data, _ = decode(payload_of(report.to_html()))
    assert all(label.isprintable() for label in data["tokens"]["labels"])
    assert not re.search("[\u202e<]", re.sub(r"\\u202e", "", payload_of(report.to_html())))


def test_words_when_merged_in_the_payload_then_are_those_of_the_result() -> None:
    subject = tiny_subject()
    report = tw.report(subject, "the unhappy man", methods=["alti"], words=True)
    data, buffer = decode(payload_of(report.to_html()))
    words = np.array(data["tokens"]["words"])
    scores = rows_of(data["methods"][0]["scores"], buffer)[0]
    merged = [scores[words == word].sum() for word in range(words.max() + 1)]
    expected = tw.explain(subject, "the unhappy man", "alti").words()
    assert data["tokens"]["wordLabels"] == list(expected.sources.pieces)
    np.testing.assert_allclose(merged, expected.scores[0], atol=1e-4)
    assert data["tokens"]["glued"] == [False, False, False, True, False, False]
    assert data["openWords"]


def test_page_when_a_model_has_an_odd_name_then_is_written_all_the_same(bundled: tw.Subject) -> None:
    named = replace(bundled, name="odd \x1b[31m \ud800 name")
    report = tw.report(named, "a witty movie", methods=["alti"])
    report.to_html().encode()
    console = Console(file=StringIO(), width=80)
    console.print(report)
    assert "\x1b" not in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


# --- the text --------------------------------------------------------------------------------------------


def test_text_when_printed_then_has_the_headline_the_methods_and_what_is_left_out(bundled: tw.Subject) -> None:
    report = tw.report(bundled, "a witty movie", methods=["alti", "decompx"])
    console = Console(file=StringIO(), width=200)
    console.print(report)
    first, about, *left_out = console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
    assert first.strip() == report.headline()
    assert "alti, decompx" in about and "5 tokens" in about
    assert [line.strip() for line in left_out] == [f"left out: {entry}" for entry in report.left_out]


# --- figures ---------------------------------------------------------------------------------------------


def test_figures_when_plotted_then_have_tokens_as_labels_and_leave_matplotlib_unchanged(bundled: tw.Subject) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    both = tw.compare(bundled, TEXT, ["alti", "decompx"])
    figures = [
        both.attributions[0].plot(),
        tw.explain(bundled, "a witty movie.", "alti", "all").plot(),
        both.plot(),
        tw.compare(bundled, "a witty movie.", ["alti", "raw_attention"], "all").plot(),
        tw.trust(bundled, TEXT).plot(),
        tw.report(bundled, TEXT, ["alti"]).plot(),
    ]
    for figure in figures:
        figure.draw_without_rendering()
    labels = [label.get_text() for label in figures[0].axes[0].get_xticklabels()]
    assert labels == list(both.attributions[0].sources.pieces)
    heights = [bar.get_height() for bar in figures[0].axes[0].patches]  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(heights, both.attributions[0].scores[0])
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_figure_when_tokens_look_like_formulas_or_lack_glyphs_then_is_drawn_as_they_are() -> None:
    subject = tw.load(BY_NAME["bert"].build(), wordpiece())
    attribution = tw.explain(subject, "the cat 日 本", "alti")
    count = len(attribution.sources)
    strange = replace(attribution.sources, pieces=("$x^", "$\\frac{1}{", "日", "\x1b[2J", "%", "_")[:count])
    figure = replace(attribution, sources=strange).plot()
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["$x^", "$\\frac{1}{", "▯", "\\x1b[2J", "%", "_"][:count]


def test_figure_when_the_prediction_is_pooled_then_draws_the_pooled_row(pooling: tw.Subject) -> None:
    report = tw.report(pooling, [5, 9, 6, 17, 8], ["alti", "decompx"])
    image = report_figure(report).axes[0].images[0].get_array()
    rows = [tw.explain(pooling, [5, 9, 6, 17, 8], name).scores[0] for name in ("alti", "decompx")]
    np.testing.assert_allclose(np.asarray(image), [row / np.abs(row).max() for row in rows], atol=1e-3)


def test_figure_when_no_method_explains_the_target_then_says_so(bundled: tw.Subject) -> None:
    report = tw.report(bundled, "a witty movie", methods=["decompx"], target="witty")
    with pytest.raises(tw.InputError, match="explains its target"):
        report.plot()
