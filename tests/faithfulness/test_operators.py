"""Tokens are taken away on ids: what is left is what was there, in its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.faithfulness.operators import OPERATORS, Blanks, Operator, Reading, without

BLANKS = Blanks(mask=2, pad=0, named="[MASK]")
READING = Reading((1, 7, 8, 9, 3), (0, 0, 1, 1, 1), (), 3)


def test_deletion_when_tokens_go_then_types_and_the_place_that_is_read_move_up() -> None:
    assert without(READING, [1, 2], "delete", BLANKS) == Reading((1, 9, 3), (0, 1, 1), (), 1)


def test_mask_when_tokens_go_then_a_blank_stands_in_their_place() -> None:
    assert without(READING, [1, 2], "mask", BLANKS) == Reading((1, 2, 2, 9, 3), (0, 0, 1, 1, 1), (), 3)


def test_pad_when_tokens_go_then_attention_does_not_see_them() -> None:
    hidden = (False, True, True, False, False)
    assert without(READING, [1, 2], "pad", BLANKS) == Reading((1, 0, 0, 9, 3), (0, 0, 1, 1, 1), hidden, 3)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator_when_everything_goes_then_a_blank_is_left(operator: Operator) -> None:
    left = without(Reading((7, 8)), [0, 1], operator, BLANKS)
    assert set(left.ids) == {2}
    assert not any(left.hidden)


def test_operator_when_the_place_that_is_read_is_to_go_then_is_refused() -> None:
    with pytest.raises(tw.InputError, match="of which 3 is read"):
        without(READING, [3], "mask", BLANKS)
    with pytest.raises(tw.InputError, match="cannot be taken away"):
        without(READING, [5], "delete", BLANKS)


def test_mask_when_the_tokenizer_has_no_blank_then_says_so() -> None:
    with pytest.raises(tw.InputError, match="choose the operator delete or pad"):
        without(READING, [1], "mask", Blanks(None, 0, "none"))


@given(st.lists(st.integers(5, 98), min_size=2, max_size=9), st.data(), st.sampled_from(OPERATORS))
def test_operator_when_tokens_go_then_the_others_stay_as_they_are(
    ids: list, data: st.DataObject, how: Operator
) -> None:
    places = data.draw(st.sets(st.integers(0, len(ids) - 1), max_size=len(ids) - 1))
    left = without(Reading(tuple(ids)), sorted(places), how, BLANKS)
    kept = [number for place, number in enumerate(ids) if place not in places]
    hidden = left.hidden or (False,) * len(left)
    assert [number for number, gone in zip(left.ids, hidden, strict=True) if not gone and number != 2] == kept
