"""Targets: positions, tokens, words, the prediction, and errors that name them."""

from dataclasses import replace

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification

import thalweg as tw
from tests.tiny import tiny_subject, wordpiece
from thalweg.capture.target import Target, TargetLike, find_target

TEXT = "the cat likes the unhappy dog."  # [CLS] the cat likes the un ##happy dog . [SEP]
CAPTURE = tiny_subject().capture(TEXT)
CLASS = int(CAPTURE.logits.argmax())  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("target", "positions"),
    [
        (2, (2,)),
        (-1, (9,)),
        ([1, 3], (1, 3)),
        ("cat", (2,)),
        (" CAT ", (2,)),
        ("unhappy", (5, 6)),  # a word of two tokens
        ("happy", (6,)),
        ("all", tuple(range(10))),
        ("prediction", (0,)),
        (None, (0,)),
    ],
)
def test_target_when_found_then_has_its_positions(target: TargetLike, positions: tuple[int, ...]) -> None:
    assert find_target(CAPTURE, target) == Target(positions, CLASS)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("target", "facts"),
    [
        ("the", r"'the' occurs at positions \[1, 4\]"),
        ("tree", "'tree' does not occur.*likes"),
        (10, "0 to 9.*got 10"),
        ([], r"0 to 9.*got \[\]"),
        (1.5, "got 1.5"),
    ],
)
def test_target_when_not_found_then_the_error_names_it_and_the_choice(target: TargetLike, facts: str) -> None:
    with pytest.raises(tw.InputError, match=facts):
        find_target(CAPTURE, target)


def test_prediction_when_all_positions_are_pooled_then_is_one_target() -> None:
    pooled = replace(CAPTURE, readout=(0, 1, 2))
    assert find_target(pooled, None) == Target((0, 1, 2), CLASS, pooled=True)


def test_output_when_a_language_model_is_explained_then_is_the_token_predicted_there() -> None:
    capture = tiny_subject("gpt2").capture("the keys")
    assert capture.logits is not None
    assert find_target(capture, 0) == Target((0,), int(capture.logits[0].argmax()))
    assert find_target(capture, None).positions == (len(capture.tokens) - 1,)
    assert find_target(capture, [0, 1]).output is None


def test_output_when_a_source_token_is_explained_then_is_none() -> None:
    capture = tiny_subject("bart").capture("the cat")
    assert capture.logits is not None
    assert find_target(capture, 0).output is None
    assert find_target(capture, -1).output == int(capture.logits[-1].argmax())


def test_token_classifier_when_a_position_is_explained_then_no_token_is_named_as_its_label() -> None:
    config = BertConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        id2label={0: "O", 1: "PER", 2: "LOC"},
    )  # fmt: skip
    torch.manual_seed(0)
    subject = tw.load(BertForTokenClassification(config).eval(), wordpiece())
    assert subject.task == "token_classification"
    assert tw.explain(subject, "the cat", target=1).prediction is None
    with pytest.raises(tw.InputError, match="no single prediction"):
        tw.explain(subject, "the cat", target="prediction")
