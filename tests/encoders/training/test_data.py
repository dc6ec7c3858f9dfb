"""Labelled texts and their splits: disjoint, stratified, and with every label in training."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from tests.encoders.training.corpus import cued
from thalweg.encoders.training.data import LabelledSplits, LabelledTexts, listed, split

labelled = st.lists(st.sampled_from("abc"), min_size=2, max_size=60)


@given(labelled, st.floats(0.01, 0.99), st.integers(0, 5))
def test_split_when_made_then_every_example_is_in_one_part_and_every_label_in_training(
    labels: list[str], share: float, seed: int
) -> None:
    examples = LabelledTexts([f"text {n}" for n in range(len(labels))], labels)
    if max(Counter(labels).values()) < 2:
        with pytest.raises(tw.InputError, match=rf"all {len(labels)} examples have different labels"):
            split(examples, share, seed)
        return
    training, validation = split(examples, share, seed)
    assert sorted([*training.texts, *validation.texts]) == sorted(examples.texts)
    assert set(training.labels) == set(labels)
    assert validation.texts
    label_of = dict(zip(examples.texts, labels, strict=True))
    for part in (training, validation):
        assert [label_of[text] for text in part.texts] == list(part.labels)


def test_split_when_labels_are_uneven_then_each_contributes_its_share() -> None:
    examples = LabelledTexts([f"text {n}" for n in range(1000)], ["rare"] * 100 + ["common"] * 900)
    assert Counter(split(examples, 0.2, 0)[1].labels) == {"rare": 20, "common": 180}


def test_split_when_the_seed_is_the_same_then_is_the_same() -> None:
    examples = cued()
    assert split(examples, 0.1, 3) == split(examples, 0.1, 3)
    assert split(examples, 0.1, 3) != split(examples, 0.1, 4)


def test_labels_when_integers_then_are_in_numerical_order() -> None:
    def ordered(*labels: str) -> tuple[str, ...]:
        examples = LabelledTexts([f"text {label}" for label in labels], labels)
        return LabelledSplits(examples, examples, None).labels

    assert ordered("10", "2", "-1") == ("-1", "2", "10")
    assert ordered("10", "2", "x") == ("10", "2", "x")
    assert ordered("--1", "2") == ("--1", "2")
    assert ordered("1", "01", "2") == ordered("01", "2", "1") == ("01", "1", "2")  # equal as numbers: by text


@pytest.mark.parametrize(
    ("texts", "labels", "fact"),
    [
        (["a"], ["x", "y"], "1 texts and 2 labels"),
        ([], [], "0 texts"),
        (["a", " "], ["x", "y"], "1 texts are empty, the first at index 1"),
        (["a", "b"], ["x", ""], "1 labels are empty"),
        (["a", "\ud800"], ["x", "y"], "1 texts are not valid Unicode, the first at index 1"),
        ("ab", ["x", "y"], "texts must be a list of strings, got str"),
        (["a", "b"], [0, 1], "labels must be a list of strings"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_examples_when_unusable_then_are_refused_with_their_index(texts: list, labels: list, fact: str) -> None:
    with pytest.raises(tw.InputError, match=fact):
        LabelledTexts(texts, labels)


def test_splits_when_labels_are_missing_in_training_then_are_refused() -> None:
    two, three = LabelledTexts(["a", "b"], ["x", "y"]), LabelledTexts(["a", "b", "c"], ["x", "y", "z"])
    with pytest.raises(tw.InputError, match=r"two labels.* 2 training examples have the label 'x'"):
        LabelledSplits(LabelledTexts(["a", "b"], ["x", "x"]), two, None)
    with pytest.raises(tw.InputError, match=r"validation .*'z'; training has 'x', 'y'"):
        LabelledSplits(two, three, None)
    with pytest.raises(tw.InputError, match=r"test .*'z'"):
        LabelledSplits(two, two, three)


def test_splits_when_listed_then_have_only_those_that_exist() -> None:
    examples = LabelledTexts(["a", "b"], ["x", "y"])
    assert list(LabelledSplits(examples, examples, None).by_name) == ["training", "validation"]
    assert list(LabelledSplits(examples, examples, examples).by_name) == ["training", "validation", "test"]


def test_labels_when_many_then_an_error_shows_the_first() -> None:
    assert listed(list("abcdefghij")) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more"
