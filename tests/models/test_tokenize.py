"""Tokens of texts and ids: pieces, places, words, special tokens."""

import pytest

import thalweg as tw
from tests.tiny import snapshot, tiny_subject, wordpiece
from thalweg.models.tokenize import special_ids, tokenize, tokenize_target, tokens_from_ids


def test_text_when_tokenized_then_has_pieces_places_and_words() -> None:
    tokens, rows = tokenize(wordpiece(), ("the unhappy cat",))
    assert tokens.pieces == ("[CLS]", "the", "un", "happy", "cat", "[SEP]")
    assert tokens.spans == (None, (0, 3), (4, 6), (6, 11), (12, 15), None)
    assert tokens.words == (None, 0, 1, 1, 2, None)
    assert tokens.special == (True, False, False, False, False, True)
    assert tuple(rows["input_ids"]) == tokens.ids
    assert set(rows) == {"input_ids", "token_type_ids", "attention_mask"}


@pytest.mark.parametrize(
    ("texts", "facts"), [((" ",), "' ' is empty"), (("a", ""), r"\('a', ''\) is empty"), (("\udcff",), "Unicode")]
)
def test_text_when_unusable_then_is_refused(texts: tuple[str, ...], facts: str) -> None:
    with pytest.raises(tw.InputError, match=facts):
        tokenize(wordpiece(), texts)


def test_target_when_tokenized_then_follows_the_start_token() -> None:
    tokens = tokenize_target(wordpiece(), "a dog", start=3)
    assert tokens.pieces == ("[SEP]", "a", "dog")
    assert tokens.special == (True, False, False)
    assert tokens.spans == (None, (0, 1), (2, 5))
    assert (tokens.segments, tokens.texts) == ((0, 0, 0), ("a dog",))


def test_ids_when_there_is_no_tokenizer_then_are_their_own_pieces() -> None:
    assert tokens_from_ids(None, [1, 5]).pieces == ("1", "5")
    assert tokens_from_ids(wordpiece(), [1, 5]).pieces == ("[CLS]", "the")
    assert tokens_from_ids(wordpiece(), [1, 5]).special == (True, False)


def test_special_ids_when_listed_then_leave_out_the_unknown_word() -> None:
    tokenizer = wordpiece()
    assert tokenizer.cls_token_id in special_ids(tokenizer)
    assert tokenizer.unk_token_id not in special_ids(tokenizer)
    assert special_ids(None) == set()


@pytest.mark.usefixtures("as_a_user")
def test_unknown_words_when_there_are_no_others_then_are_captured_as_words() -> None:
    subject = tiny_subject()
    before = snapshot(subject.model)
    assert subject.capture("zzz qqq").tokens.pieces == ("[CLS]", "zzz", "qqq", "[SEP]")
    assert snapshot(subject.model) == before
