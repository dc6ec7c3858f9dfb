"""Tokens of texts and ids: pieces, places, words, special tokens."""

import pytest

import thalweg as tw
from tests.tiny import byte_level, snapshot, tiny_subject, wordpiece
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


def test_unknown_text_when_tokenized_then_is_shown_as_the_model_reads_it() -> None:
    tokens, _ = tokenize(wordpiece(), ("CC the ( CAT Unhappy",))
    assert tokens.pieces == ("[CLS]", "[UNK]", "the", "(", "cat", "un", "happy", "[SEP]")
    assert tokens.unknown == (False, True, False, False, False, False, False, False)
    assert [tokens.surface(i) for i in range(1, 6)] == ["CC", None, None, "CAT", "Un"]
    assert tokens.labels()[1] == "[UNK] ‹CC›"
    assert [word for word, _ in tokens.word_groups()][1:6] == ["[UNK]", "the", "(", "cat", "unhappy"]
    assert tokens.warnings() == (
        "1 of 8 tokens is unknown to the model, which cannot tell what it stands for: [UNK] ‹CC›",
    )
    assert tokens_from_ids(wordpiece(), [1, 4, 5]).unknown == (False, True, False)


def test_byte_level_text_when_tokenized_then_is_shown_without_space_marks() -> None:
    tokens, _ = tokenize(byte_level(), ("the key is 😀",))
    assert tokens.pieces[:3] == ("the", "Ġ", "key")
    assert tokens.pieces[-1] == "😀"  # a byte of it
    assert not any(tokens.unknown) and not tokens.warnings()


@pytest.mark.usefixtures("as_a_user")
def test_unknown_words_when_there_are_no_others_then_are_captured_as_words() -> None:
    subject = tiny_subject()
    before = snapshot(subject.model)
    assert subject.capture("zzz qqq").tokens.pieces == ("[CLS]", "[UNK]", "[UNK]", "[SEP]")
    assert snapshot(subject.model) == before
