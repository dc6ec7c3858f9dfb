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


def groups(sentence: Tokens) -> list[tuple[str, list[int]]]:
    return sentence.word_groups()


def test_words_when_pieces_are_berts_then_follow_the_tokenizers_own() -> None:
    sentence = tokens("unhappy film.", [None, (0, 2), (2, 7), (8, 12), (12, 13), None], [None, 0, 0, 1, 2, None])
    assert groups(sentence) == [("[S]", [0]), ("unhappy", [1, 2]), ("film", [3]), (".", [4]), ("[S]", [5])]


def test_words_when_spaces_belong_to_tokens_then_are_split_before_them() -> None:
    sentence = tokens("un happy film", [(0, 2), (2, 5), (5, 8), (8, 13)], [0, 1, 1, 2])
    assert groups(sentence) == [("un", [0]), ("happy", [1, 2]), ("film", [3])]


def test_words_when_word_ids_are_unknown_then_are_split_at_white_space() -> None:
    sentence = tokens("un happy film.", [(0, 2), (2, 5), (5, 8), (8, 13), (13, 14)])
    assert groups(sentence) == [("un", [0]), ("happy", [1, 2]), ("film.", [3, 4])]


def test_words_when_all_have_one_word_id_then_are_split_at_white_space() -> None:
    sentence = tokens("un happy", [(0, 2), (2, 5), (5, 8)], [0, 0, 0])
    assert groups(sentence) == [("un", [0]), ("happy", [1, 2])]


def test_words_when_an_emoji_is_four_tokens_then_it_is_one_word() -> None:
    sentence = tokens("a 😀 b", [(0, 1), (1, 3), (2, 3), (2, 3), (2, 3), (3, 5)], [0, 1, 1, 1, 1, 2])
    assert groups(sentence) == [("a", [0]), ("😀", [1, 2, 3, 4]), ("b", [5])]


def test_words_when_a_token_is_only_white_space_then_has_its_piece_as_name() -> None:
    sentence = tokens("a\nb", [(0, 1), (1, 2), (2, 3)], [0, 1, 2], pieces=("a", "Ċ", "b"))
    assert groups(sentence) == [("a", [0]), ("Ċ", [1]), ("b", [2])]


def test_words_when_two_texts_meet_then_are_not_joined() -> None:
    sentence = tokens(None, [(0, 3), (3, 6)], segments=(0, 1), texts=("cat", "dogdog"), pieces=("a", "b"))
    assert [positions for _, positions in groups(sentence)] == [[0], [1]]


def test_words_when_tokens_are_taken_out_of_order_then_are_not_joined() -> None:
    sentence = tokens("one two three", [(0, 3), (4, 7), (8, 13)], [0, 1, 2])
    assert groups(sentence.select((2, 0))) == [("three", [0]), ("one", [1])]


def test_words_when_there_is_no_text_then_every_token_is_a_word() -> None:
    assert groups(anonymous(3)) == [("#0", [0]), ("#1", [1]), ("#2", [2])]


def test_words_when_the_tokenizer_is_byte_level_then_hold_all_bytes_of_an_emoji() -> None:
    captured = tiny_subject("gpt2").capture("the key 😀 the").tokens
    assert captured.pieces.count("😀") == 4
    assert [(word, len(positions)) for word, positions in groups(captured)] == [
        ("the", 1),
        ("key", 2),
        ("😀", 5),
        ("the", 1),
    ]


def test_words_when_the_tokenizer_is_sentence_pieces_then_are_split_at_white_space() -> None:
    subject = tw.load(BY_NAME["llama"].build(), sentence_pieces())
    captured = subject.capture("the unhappy film, playing.").tokens
    assert [word for word, _ in groups(captured)] == ["the", "unhappy", "film,", "playing."]
    assert sum(len(positions) for _, positions in groups(captured)) == len(captured)


def test_special_when_from_ids_or_text_then_is_the_same() -> None:
    subject = tiny_subject()
    by_text = subject.capture("the zzz cat").tokens
    by_ids = subject.capture([1, 5, 4, 28, 3])
    assert isinstance(by_ids, Capture)
    assert by_ids.tokens.ids == by_text.ids
    assert by_ids.tokens.special == by_text.special


def test_select_when_positions_repeat_or_turn_round_then_every_column_follows() -> None:
    sentence = tokens("a bc", [None, (0, 1), (2, 4)], [None, 0, 1])
    selected = sentence.select((2, 0, 2))
    assert selected.pieces == ("bc", "[S]", "bc")
    assert selected.ids == (2, 0, 2)
    assert selected.special == (False, True, False)
    assert selected.spans == ((2, 4), None, (2, 4))
    assert selected.words == (1, None, 1)
    assert selected.texts == ("a bc",)
    assert len(selected) == 3


def test_sum_when_two_sequences_are_joined_then_segments_lead_to_their_own_text() -> None:
    both = tokens("ab", [(0, 2)]) + tokens("cde", [(0, 3)])
    assert both.pieces == ("ab", "cde")
    assert [both.texts[segment] for segment in both.segments] == ["ab", "cde"]
    assert groups(both) == [("ab", [0]), ("cde", [1])]


def test_tokens_when_modified_then_raises() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        tokens("a", [(0, 1)]).pieces = ("b",)  # pyright: ignore[reportAttributeAccessIssue]


def test_byte_level_tokenizer_when_used_then_splits_as_these_tests_expect() -> None:
    pieces = byte_level().convert_ids_to_tokens(byte_level()("the key😀")["input_ids"])
    assert pieces == ["the", "Ġ", "key", "ð", "Ł", "ĺ", "Ģ"]


def test_kinds_when_read_then_tell_special_first_punctuation_and_content_apart() -> None:
    sentence = tokens("un happy, film", [None, (0, 2), (2, 8), (8, 9), (9, 14), None])
    assert sentence.kinds() == ("[S]", "content", "content", "punctuation", "content", "[S]")
    assert sentence.select((1, 2)).kinds() == ("first token", "content")
    marks = tokens("abcd", [(0, 1), (1, 2), (2, 3), (3, 4)], pieces=("a", "▁.", "#", "Ġ"))
    assert marks.kinds() == ("first token", "punctuation", "punctuation", "content")


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
