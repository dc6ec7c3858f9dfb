"""The section on checks."""

from tests.corpus.summaries import hand_made_summary
from thalweg.corpus.page.check_section import check_section
from thalweg.corpus.summary import WorstCheck


def test_checks_when_all_hold_then_says_so() -> None:
    page = check_section(hand_made_summary())
    assert "Every check is within its tolerance" in page
    assert "alti: sum of parts" in page
    assert "<td>2.0e-07</td><td>1.0e-05</td>" in page


def test_checks_when_one_is_exceeded_then_warns() -> None:
    broken = WorstCheck("alti", "parity", 20, 2, None, 1e-5, 3, 4)
    page = check_section(hand_made_summary(checks=(broken,)))
    assert "1 of 1 checks exceed their tolerance" in page
    assert "not finite" in page and "2 of 20" in page


def test_checks_when_no_text_was_processed_then_says_so() -> None:
    assert "Nothing was checked" in check_section(hand_made_summary(checks=()))
