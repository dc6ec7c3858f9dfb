"""The section on mixing by layer."""

from tests.corpus.summaries import FIGURES, hand_made_summary
from thalweg.corpus.page.mixing_section import mixing_section
from thalweg.corpus.summary import LayerFigures


def test_mixing_when_a_figure_is_unknown_then_has_no_chart() -> None:
    page = mixing_section(hand_made_summary())
    assert page.count("<figure") == 2
    assert "alti, layer 1: 50.0%, 10th to 90th percentile 25.0% to 75.0%, 20 texts" in page
    assert page.count("50.0 (25.0 to 75.0)") == 4


def test_mixing_when_methods_have_the_same_figures_then_says_that_lines_coincide() -> None:
    layers = tuple(LayerFigures(name, 0, FIGURES) for name in ("alti", "attention_flow"))
    assert "alti, attention_flow have the same per-layer maps" in mixing_section(hand_made_summary(layers=layers))
    assert "have the same" not in mixing_section(hand_made_summary())


def test_mixing_when_no_method_has_layer_maps_then_says_so() -> None:
    page = mixing_section(hand_made_summary(layers=()))
    assert "No method of this run has a map for every layer" in page
    assert "<figure" not in page
