"""Tokens are removed by id: the others keep their order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from tests.families import MASK, PAD
from tests.tiny import UNKNOWN, tiny_subject, wordpiece
from thalweg.faithfulness.operators import OPERATORS, Blanks, Operator, TokenSequence, remove_tokens

BLANKS = Blanks(mask=2, pad=0, label="[MASK]")
SEQUENCE = TokenSequence((1, 7, 8, 9, 3), (0, 0, 1, 1, 1), (), 3)


def test_delete_when_tokens_are_removed_then_types_and_the_answer_position_move_up() -> None:
    assert remove_tokens(SEQUENCE, [1, 2], "delete", BLANKS) == TokenSequence((1, 9, 3), (0, 1, 1), (), 1)


def test_mask_when_tokens_are_removed_then_blanks_replace_them() -> None:
    assert remove_tokens(SEQUENCE, [1, 2], "mask", BLANKS) == TokenSequence((1, 2, 2, 9, 3), (0, 0, 1, 1, 1), (), 3)


def test_pad_when_tokens_are_removed_then_attention_does_not_see_them() -> None:
    hidden = (False, True, True, False, False)
    assert remove_tokens(SEQUENCE, [1, 2], "pad", BLANKS) == TokenSequence((1, 0, 0, 9, 3), (0, 0, 1, 1, 1), hidden, 3)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator_when_everything_is_removed_then_a_blank_is_left(operator: Operator) -> None:
    left = remove_tokens(TokenSequence((7, 8)), [0, 1], operator, BLANKS)
    assert set(left.ids) == {2}
    assert not any(left.hidden)


def test_operator_when_the_answer_position_would_be_removed_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match=r"\[3\] from 5 tokens .*read at position 3"):
        remove_tokens(SEQUENCE, [3], "mask", BLANKS)
    with pytest.raises(tw.InputError, match=r"cannot remove positions \[5\]"):
        remove_tokens(SEQUENCE, [5], "delete", BLANKS)


def test_mask_when_the_tokenizer_has_no_blank_then_the_error_names_other_operators() -> None:
    with pytest.raises(tw.InputError, match="use the operator delete or pad"):
        remove_tokens(SEQUENCE, [1], "mask", Blanks(None, 0, "none"))


@given(st.lists(st.integers(5, 98), min_size=2, max_size=9), st.data(), st.sampled_from(OPERATORS))
def test_operator_when_tokens_are_removed_then_the_others_stay_as_they_are(
    ids: list, data: st.DataObject, operator: Operator
) -> None:
    removed = data.draw(st.sets(st.integers(0, len(ids) - 1), max_size=len(ids) - 1))
    left = remove_tokens(TokenSequence(tuple(ids)), sorted(removed), operator, BLANKS)
    kept = [number for position, number in enumerate(ids) if position not in removed]
    hidden = left.hidden or (False,) * len(left)
    assert [number for number, unseen in zip(left.ids, hidden, strict=True) if not unseen and number != 2] == kept


def test_blanks_when_a_tokenizer_has_no_mask_then_are_the_unknown_token() -> None:
    subject = tiny_subject("bert")
    assert Blanks.of(subject.model, subject.tokenizer) == Blanks(MASK, PAD, "[MASK]")
    tokenizer = wordpiece()
    tokenizer.mask_token = None
    assert Blanks.of(subject.model, tokenizer) == Blanks(UNKNOWN, PAD, "[UNK]")
    assert Blanks.of(subject.model, None).mask is None
