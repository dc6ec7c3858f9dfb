"""The section on the largest sources."""

from tests.corpus.summaries import WITTY, hand_made_summary
from thalweg.corpus.page.token_section import token_section
from thalweg.corpus.summary import MIN_TIMES_KEPT, MethodFigures, TokenFigures


def test_tokens_when_scores_have_one_sign_then_have_no_column_of_sizes() -> None:
    page = token_section(hand_made_summary())
    assert "witty" in page and "60.0" in page  # 12 of 20 texts
    assert "<td>0.400</td>" in page
    assert "mean |score|</th>" not in page
    assert "1.50 (1.00 to 2.00)" in page
    assert f"No token was kept {MIN_TIMES_KEPT} times." in page


def test_tokens_when_scores_have_both_signs_then_show_the_mean_size_too() -> None:
    mixed = TokenFigures("dull", times_largest=1, times_kept=12, mean_score=-20.0, mean_size=120.0)
    method = MethodFigures("alti", 20, None, None, None, (WITTY,), (mixed,))
    page = token_section(hand_made_summary(methods=(method,)))
    assert "mean |score|</th>" in page
    assert "<td>−20</td><td>120</td>" in page


def test_tokens_when_there_are_no_scores_then_says_why() -> None:
    assert "No text has scores" in token_section(hand_made_summary(methods=()))
    assert "no methods" in token_section(hand_made_summary({"methods": []}, methods=()))
    empty = MethodFigures("alti", 20, None, None, None, (), ())
    assert "No source has a score." in token_section(hand_made_summary(methods=(empty,)))
