"""The section on classes and their words."""

from dataclasses import replace

from tests.corpus.summaries import CLASSES, DULL, WORDS, hand_made_summary
from thalweg.corpus.page.word_section import word_section
from thalweg.corpus.summary import ClassWords


def test_words_when_listed_then_have_intervals_and_link_to_examples() -> None:
    page = word_section(hand_made_summary(classes=CLASSES, words=WORDS))
    assert '<a href="#text-3">dull</a>' in page
    assert "11 of 12" in page and "12.5 (5.0 to 20.0)" in page
    assert "96.5 %" in page and "60.0" in page
    assert "clearly speaks for positive" in page
    assert "other methods" not in page


def test_words_when_there_are_several_methods_then_others_are_folded() -> None:
    other = ClassWords("attention_flow", "negative", (replace(DULL, word="mess"),))
    page = word_section(hand_made_summary(classes=CLASSES, words=(other, *WORDS)))
    assert page.index("dull") < page.index("Words by other methods") < page.index("mess")


def test_words_when_there_are_none_then_says_why() -> None:
    assert "No class was predicted" in word_section(hand_made_summary())
    assert "hashes instead of texts" in word_section(hand_made_summary({"text": "hash"}, classes=CLASSES))
    assert "All texts have the same class" in word_section(hand_made_summary(classes=CLASSES[:1]))
    assert "no methods" in word_section(hand_made_summary(classes=CLASSES))
