"""Attributions, comparisons and mixing in a terminal, as a page and as a figure."""

from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console

import thalweg as tw
from tests.attribution.handmade import SCORES, THREE, answer, attribution
from tests.attribution.test_mixing_result import MIXING
from tests.tiny import tiny_subject
from thalweg.tokens import anonymous

ROW = SCORES[:1]


def printed(result: Any, width: int = 120) -> str:
    out = StringIO()
    Console(file=out, width=width).print(result)
    return out.getvalue()


def single(**options: Any) -> tw.Attribution:
    return attribution(ROW, THREE.select((0,)), **options)


def test_attribution_when_printed_then_has_prediction_scores_and_receipt() -> None:
    text = printed(single(params={"layer": 2, "head": None}))
    assert "raw_attention (layer=2)" in text
    assert "prediction LABEL_1 (75.0 %) before other (25.0 %)   read at un" in text
    assert "█" * 20 in text
    assert "0.500" in text
    assert "parity 2e-07 (allowed 2e-05)" in text
    assert "assumed: nothing; much" in text


def test_attribution_when_signed_then_says_what_speaks_for_and_against() -> None:
    text = printed(attribution(np.array([[0.5, -0.3, 0.2]]), THREE.select((0,))))
    assert "for LABEL_1 (75.0 %): un (0.50), film (0.20); against it: happy (-0.30)" in text


def test_attribution_when_a_token_is_unknown_then_warns_and_shows_what_the_model_reads() -> None:
    text = printed(tw.explain(tiny_subject(), "the CC cat", "raw_attention"))
    assert "warning: 1 of 5 tokens is unknown to the model" in text
    assert "[UNK] ‹CC›" in text


def test_attribution_when_printed_with_several_targets_then_has_a_line_for_each() -> None:
    text = printed(attribution())
    assert "target 1: happy" in text
    assert "film 0.600  happy 0.300  un 0.100" in text


def test_attribution_when_the_window_is_narrow_then_bars_shrink() -> None:
    assert "█" * 20 not in printed(single(), width=24)
    assert "█" * 8 in printed(single(), width=24)


def test_pieces_when_they_hold_control_characters_then_are_spelled_out() -> None:
    text = printed(single(answer=answer("\x1b[2J")))
    assert "\x1b[2J" not in text
    assert "\\x1b" in text


def test_comparison_when_printed_then_has_the_agreement_in_every_width() -> None:
    comparison = tw.Comparison((single(), single(method="alti", params={})))
    for width in (120, 36, 24):
        text = printed(comparison, width)
        assert "rank agreement" in text
        assert "+1.00" in text


def test_mixing_when_printed_then_has_a_row_per_layer() -> None:
    lines = printed(MIXING).splitlines()
    assert "from the embeddings" in lines[0]
    assert "2 texts, 14 tokens" in lines[1]
    layer = next(line for line in lines if line.startswith("1 "))
    assert layer.split() == ["1", "60.0", "25.0", "20.0", "10.0", "5.0", "5.0", "0.0", "0.0", "50.0", "25.0", "25.0"]


def test_page_when_written_then_has_the_headline() -> None:
    assert "comes mostly from un (0.50)" in single().to_html()
    assert "comes mostly from" in tw.Comparison((single(), single(method="alti", params={}))).to_html()


def test_figure_when_one_target_is_drawn_then_has_a_bar_per_source_and_names_the_prediction() -> None:
    (axes,) = attribution(np.array([[0.5, -0.3, 0.2]]), THREE.select((0,))).plot().axes
    assert [patch.get_height() for patch in axes.patches] == [0.5, -0.3, 0.2]  # pyright: ignore[reportAttributeAccessIssue]
    assert axes.get_title() == "raw_attention: prediction LABEL_1" or "LABEL_1" in axes.get_title(loc="left")


def test_figure_when_there_are_many_sources_then_says_how_many_are_omitted() -> None:
    count = 400
    scores = np.arange(count, dtype=float)[None]
    (axes,) = attribution(scores, anonymous(1), anonymous(count)).plot().axes
    title = axes.get_title() or axes.get_title(loc="left")
    assert f"{count - len(axes.patches)} smaller ones omitted" in title


def test_figure_when_several_targets_are_compared_then_has_a_map_per_method() -> None:
    figure = tw.Comparison((attribution(), attribution(method="alti", params={}))).plot()
    images = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert [image.shape for image in images] == [(3, 3), (3, 3)]  # pyright: ignore[reportOptionalMemberAccess]
