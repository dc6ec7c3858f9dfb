"""Tokens and words, on cases small enough to see the answer."""

import dataclasses
from typing import Any

import pytest

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import byte_level, sentence_pieces, tiny_subject
from thalweg.capture.record import Capture
from thalweg.tokens import Tokens, anonymous

Span = tuple[int, int] | None


def tokens(text: str | None, spans: list[Span], words: list[int | None] | None = None, **changed: Any) -> Tokens:
    """Tokens of one text; a token without a span is a special one."""
    pieces = ["[S]" if s is None or text is None else text[slice(*s)].strip() for s in spans]
    columns: dict[str, Any] = {
        "pieces": tuple(pieces),
        "ids": tuple(range(len(spans))),
        "special": tuple(span is None for span in spans),
        "spans": tuple(spans),
        "words": tuple(words or [None] * len(spans)),
        "segments": (0,) * len(spans),
        "texts": (text,),
    }
    return Tokens(**{**columns, **changed})


def groups(one: Tokens) -> list[tuple[str, list[int]]]:
    return one.word_groups()


def test_words_when_pieces_are_berts_then_follow_the_tokenizers_own() -> None:
    one = tokens("unhappy film.", [None, (0, 2), (2, 7), (8, 12), (12, 13), None], [None, 0, 0, 1, 2, None])
    assert groups(one) == [("[S]", [0]), ("unhappy", [1, 2]), ("film", [3]), (".", [4]), ("[S]", [5])]


def test_words_when_spaces_belong_to_tokens_then_are_split_before_them() -> None:
    one = tokens("un happy film", [(0, 2), (2, 5), (5, 8), (8, 13)], [0, 1, 1, 2])
    assert groups(one) == [("un", [0]), ("happy", [1, 2]), ("film", [3])]


def test_words_when_word_ids_are_unknown_then_are_split_at_white_space() -> None:
    one = tokens("un happy film.", [(0, 2), (2, 5), (5, 8), (8, 13), (13, 14)])
    assert groups(one) == [("un", [0]), ("happy", [1, 2]), ("film.", [3, 4])]


def test_words_when_all_have_one_word_id_then_are_split_at_white_space() -> None:
    one = tokens("un happy", [(0, 2), (2, 5), (5, 8)], [0, 0, 0])
    assert groups(one) == [("un", [0]), ("happy", [1, 2])]


def test_words_when_an_emoji_is_four_tokens_then_it_is_one_word() -> None:
    one = tokens("a 😀 b", [(0, 1), (1, 3), (2, 3), (2, 3), (2, 3), (3, 5)], [0, 1, 1, 1, 1, 2])
    assert groups(one) == [("a", [0]), ("😀", [1, 2, 3, 4]), ("b", [5])]


def test_words_when_a_token_is_white_space_alone_then_still_have_a_name() -> None:
    one = tokens("a\nb", [(0, 1), (1, 2), (2, 3)], [0, 1, 2], pieces=("a", "Ċ", "b"))
    assert groups(one) == [("a", [0]), ("Ċ", [1]), ("b", [2])]


def test_words_when_two_texts_meet_then_are_not_joined() -> None:
    one = tokens(None, [(0, 3), (3, 6)], segments=(0, 1), texts=("cat", "dogdog"), pieces=("a", "b"))
    assert [positions for _, positions in groups(one)] == [[0], [1]]


def test_words_when_tokens_are_taken_out_of_order_then_are_not_joined() -> None:
    one = tokens("one two three", [(0, 3), (4, 7), (8, 13)], [0, 1, 2])
    assert groups(one.select((2, 0))) == [("three", [0]), ("one", [1])]


def test_words_when_there_is_no_text_then_each_token_stands_alone() -> None:
    assert groups(anonymous(3)) == [("#0", [0]), ("#1", [1]), ("#2", [2])]


def test_words_when_the_tokenizer_is_byte_level_then_hold_all_bytes_of_an_emoji() -> None:
    found = tiny_subject("gpt2").capture("the key 😀 the").tokens
    assert found.pieces.count("😀") == 4
    assert [(word, len(positions)) for word, positions in groups(found)] == [
        ("the", 1),
        ("key", 2),
        ("😀", 5),
        ("the", 1),
    ]


def test_words_when_the_tokenizer_is_sentence_pieces_then_are_split_at_white_space() -> None:
    subject = tw.load(BY_NAME["llama"].build(), sentence_pieces())
    found = subject.capture("the unhappy film, playing.").tokens
    assert [word for word, _ in groups(found)] == ["the", "unhappy", "film,", "playing."]
    assert sum(len(positions) for _, positions in groups(found)) == len(found)


def test_special_when_ids_or_text_are_given_then_means_the_same() -> None:
    subject = tiny_subject()
    text = subject.capture("the zzz cat").tokens
    given = subject.capture([1, 5, 4, 28, 3])
    assert isinstance(given, Capture)
    assert given.tokens.ids == text.ids
    assert given.tokens.special == text.special


def test_select_when_positions_repeat_or_turn_round_then_every_column_follows() -> None:
    one = tokens("a bc", [None, (0, 1), (2, 4)], [None, 0, 1])
    found = one.select((2, 0, 2))
    assert found.pieces == ("bc", "[S]", "bc")
    assert found.ids == (2, 0, 2)
    assert found.special == (False, True, False)
    assert found.spans == ((2, 4), None, (2, 4))
    assert found.words == (1, None, 1)
    assert found.texts == ("a bc",)
    assert len(found) == 3


def test_sum_when_two_sequences_are_joined_then_segments_lead_to_their_own_text() -> None:
    both = tokens("ab", [(0, 2)]) + tokens("cde", [(0, 3)])
    assert both.pieces == ("ab", "cde")
    assert [both.texts[segment] for segment in both.segments] == ["ab", "cde"]
    assert groups(both) == [("ab", [0]), ("cde", [1])]


def test_tokens_when_changed_then_refuse() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        tokens("a", [(0, 1)]).pieces = ("b",)  # pyright: ignore[reportAttributeAccessIssue]


def test_byte_level_tokenizer_when_asked_for_words_then_is_what_the_tests_take_it_for() -> None:
    pieces = byte_level().convert_ids_to_tokens(byte_level()("the key😀")["input_ids"])
    assert pieces == ["the", "Ġ", "key", "ð", "Ł", "ĺ", "Ģ"]


def test_tokens_when_sorted_by_kind_then_marks_are_punctuation_and_specials_keep_their_names() -> None:
    subject = tiny_subject()
    capture = subject.capture("the cat, it runs ! un")
    assert isinstance(capture, tw.Capture)
    words = ("content", "content", "punctuation", "content", "content", "punctuation", "content")
    assert capture.tokens.kinds() == ("[CLS]", *words, "[SEP]")
    causal = tiny_subject("gpt2").capture("the keys.")
    assert isinstance(causal, tw.Capture)
    assert causal.tokens.kinds()[0] == "first token"
    assert causal.tokens.kinds()[-1] == "punctuation"
