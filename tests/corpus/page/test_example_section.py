"""The section with example texts."""

from dataclasses import replace

from tests.corpus.summaries import CLASSES, EXAMPLE, WORDS, hand_made_summary
from thalweg.corpus.page.example_section import example_section, shaded


def test_examples_when_shown_then_words_are_shaded_by_their_share() -> None:
    page = str(example_section(hand_made_summary(classes=CLASSES, words=WORDS, examples=(EXAMPLE,))))
    assert 'id="text-3"' in page and "line 4, id r3" in page and "negative (97.5 %)" in page
    assert '<mark class="more-5" title="50.0 %">dull</mark> ' in page
    assert '<mark class="less-2" title="−20.0 %">fun</mark>' in page
    assert "a <mark" in page  # too small a share to be shaded


def test_examples_when_words_overlap_or_are_unknown_then_the_text_stays_whole() -> None:
    overlapping = replace(EXAMPLE, words={"alti": ((2, "dull", 0.5), (3, "ull", 0.5))})
    assert "".join(shaded(overlapping, "alti")).count("ull") == 1
    assert "".join(shaded(EXAMPLE, "none")) == EXAMPLE.excerpt


def test_examples_when_there_are_none_then_there_is_no_section() -> None:
    assert example_section(hand_made_summary()) == ""
