"""Tokens are removed by id: the others keep their order, and are batched as they are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from tests.tiny import tiny_subject
from thalweg.capture.record import Blanks
from thalweg.decompose.edits import (
    OPERATORS,
    Operator,
    TokenSequence,
    batch_tensors,
    original_sequence,
    remove_tokens,
    token_batches,
)

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


def test_batch_when_lengths_differ_then_is_padded_on_the_right_and_hides_positions() -> None:
    inputs = [TokenSequence((5, 6, 7)), TokenSequence((5, 6), hidden=(False, True))]
    tensors = batch_tensors(inputs, 0, torch.device("cpu"))
    assert tensors["input_ids"].tolist() == [[5, 6, 7], [5, 6, 0]]
    assert tensors["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert "token_type_ids" not in tensors


def test_batches_when_they_would_be_too_large_then_are_split_in_order() -> None:
    sequences = [TokenSequence(tuple(range(1000))) for _ in range(9)]
    assert [len(batch) for batch in token_batches(sequences)] == [4, 4, 1]
    assert [len(batch) for batch in token_batches(sequences, outputs=2**16)] == [1] * 9  # 1,024 tokens have 2^26 logits
    assert list(token_batches([])) == []


def test_original_when_captured_then_has_its_ids_and_types_without_padding() -> None:
    captures = tiny_subject("bert").capture(["the old dog runs", ("the dog", "a cat")])
    assert isinstance(captures, list)
    long, short = (original_sequence(capture) for capture in captures)
    assert list(long.ids) == list(captures[0].tokens.ids)
    assert list(short.ids) == list(captures[1].tokens.ids)
    assert (long.type_ids, short.type_ids) == ((0,) * 6, (0, 0, 0, 0, 1, 1, 1))


def test_original_when_the_model_reads_no_text_then_is_refused() -> None:
    family = BY_NAME["vit"]
    with pytest.raises(tw.InputError, match="no token ids, so use occlusion"):
        original_sequence(captured(family))
