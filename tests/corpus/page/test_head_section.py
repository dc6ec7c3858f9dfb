"""The section on certificates of heads."""

from tests.corpus.summaries import hand_made_summary
from thalweg.corpus.page.head_section import head_section
from thalweg.corpus.summary import HeadFigures


def test_heads_when_certified_then_show_verdicts_and_shares() -> None:
    page = head_section(hand_made_summary())
    assert "identifiable (75.0%)" in page
    assert "layer 0 head 0: identifiable in 15, locally unique given the keys in 5, not identifiable in 0 of 20" in page
    assert "<td>50.0</td>" in page and "<td>–</td>" in page
    assert page.count("<g>") == 1
    assert "small query perturbation" in page


def test_heads_when_judged_by_values_then_says_that_keys_were_not_checked() -> None:
    heads = (HeadFigures(0, 0, {"identifiable": 1, "not identifiable by values": 3}, 0.5, 0.25),)
    page = head_section(hand_made_summary({"certificate": "values"}, heads=heads))
    assert "the keys were not checked" in page
    assert "identifiable (25.0%)" in page


def test_heads_when_there_are_no_certificates_then_says_why() -> None:
    assert "errors above" in head_section(hand_made_summary(heads=()))
