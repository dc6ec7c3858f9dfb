"""Which examples a model learns from: every label is learnt, and nothing is learnt from twice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from tests.encoders.training.corpus import cued
from thalweg.encoders.training.data import Data, LabelledTexts, split

labelled = st.lists(st.sampled_from("abc"), min_size=2, max_size=60)


@given(labelled, st.floats(0.01, 0.99), st.integers(0, 5))
def test_split_when_made_then_every_example_is_in_one_part_and_every_label_is_learnt(
    labels: list[str], share: float, seed: int
) -> None:
    examples = LabelledTexts([f"text {n}" for n in range(len(labels))], labels)
    if max(Counter(labels).values()) < 2:
        with pytest.raises(tw.InputError, match="none of them with the same label"):
            split(examples, share, seed)
        return
    training, validation = split(examples, share, seed)
    assert sorted([*training.texts, *validation.texts]) == sorted(examples.texts)
    assert set(training.labels) == set(labels)
    assert validation.texts
    found = dict(zip(examples.texts, labels, strict=True))
    for part in (training, validation):
        assert [found[text] for text in part.texts] == list(part.labels)


def test_split_when_labels_are_uneven_then_each_gives_its_share() -> None:
    examples = LabelledTexts([f"text {n}" for n in range(1000)], ["rare"] * 100 + ["common"] * 900)
    assert Counter(split(examples, 0.2, 0)[1].labels) == {"rare": 20, "common": 180}


def test_split_when_the_seed_is_the_same_then_is_too() -> None:
    examples = cued()
    assert split(examples, 0.1, 3) == split(examples, 0.1, 3)
    assert split(examples, 0.1, 3) != split(examples, 0.1, 4)


def test_labels_when_whole_numbers_then_are_in_their_order() -> None:
    def ordered(*labels: str) -> tuple[str, ...]:
        examples = LabelledTexts([f"text {label}" for label in labels], labels)
        return Data(examples, examples, None).labels

    assert ordered("10", "2", "-1") == ("-1", "2", "10")
    assert ordered("10", "2", "x") == ("10", "2", "x")


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        (["a"], ["x", "y"], "1 texts and 2 labels"),
        ([], [], "0 texts"),
        (["a", " "], ["x", "y"], "1 texts are empty, the first at place 1"),
        (["a", "b"], ["x", ""], "1 labels are empty"),
        (["a", "\ud800"], ["x", "y"], "1 texts are not valid Unicode, the first at place 1"),
        ("ab", ["x", "y"], "expected a list"),
        (["a", "b"], [0, 1], "expected a list of texts"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_examples_when_they_cannot_be_used_then_say_why(texts: list, labels: list, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        LabelledTexts(texts, labels)


def test_data_when_labels_do_not_fit_then_says_which() -> None:
    two, three = LabelledTexts(["a", "b"], ["x", "y"]), LabelledTexts(["a", "b", "c"], ["x", "y", "z"])
    with pytest.raises(tw.InputError, match="all 2 training examples have the label 'x'"):
        Data(LabelledTexts(["a", "b"], ["x", "x"]), two, None)
    with pytest.raises(tw.InputError, match="validation examples have labels that training has not: 'z'"):
        Data(two, three, None)
    with pytest.raises(tw.InputError, match="test examples have labels that training has not: 'z'"):
        Data(two, two, three)
