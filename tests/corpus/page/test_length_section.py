"""The section on null share against length."""

from tests.corpus.summaries import HALF, hand_made_summary
from thalweg.corpus.page.length_section import length_section
from thalweg.corpus.summary import LengthFigures


def test_lengths_when_bins_are_wide_or_not_then_are_named_by_their_tokens() -> None:
    narrow = LengthFigures(3, 4, 5, HALF, HALF, {"identifiable": 1.0})
    wide = LengthFigures(16, 20, 7, HALF, HALF, {"identifiable": 0.5})
    page = length_section(hand_made_summary(lengths=(narrow, wide)))
    assert "3 tokens: 5 texts" in page
    assert "16 to 19 tokens: 7 texts" in page
    assert "16 to 19 tokens: identifiable 50.0%" in page
    assert "null share, 3 tokens: 50.0%" in page
    for power in ("4", "8", "16"):
        assert f">{power}</text>" in page
    assert ">2</text>" not in page.split("<figcaption>Texts")[0]


def test_lengths_when_null_shares_are_unknown_then_have_no_line_chart() -> None:
    unknown = LengthFigures(8, 10, 12, None, None, {"identifiable": 1.0})
    assert length_section(hand_made_summary(lengths=(unknown,))).count("<figure") == 2
    assert length_section(hand_made_summary()).count("<figure") == 3


def test_lengths_when_there_are_no_certificates_then_says_why() -> None:
    page = length_section(hand_made_summary({"certificate": None}, lengths=()))
    assert "started without certificates" in page
