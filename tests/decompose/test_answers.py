"""Answers of targets, and the tokens they can do without."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.decompose.handmade import capture_of, handmade
from tests.encoders.training.corpus import tiny_bert
from tests.families import BY_NAME
from tests.tiny import tiny_subject, wordpiece
from thalweg.capture.record import Capture
from thalweg.capture.target import find_target
from thalweg.decompose.answers import Answer, TargetAnswer, answer_assumptions, target_answers, visible_sources

LOGITS = torch.tensor([[0.0, np.log(3.0)]])


def answers(capture: Capture, target: object = None, output: int | None = None) -> list[TargetAnswer]:
    return target_answers(capture, find_target(capture, target), output, None, "probability")  # pyright: ignore[reportArgumentType]


def test_answer_when_there_is_a_foil_then_is_a_difference() -> None:
    assert float(Answer(1).of(LOGITS)) == pytest.approx(0.75)
    assert float(Answer(1, 0).of(LOGITS)) == pytest.approx(0.5)
    assert float(Answer(1, 0, "logit").of(LOGITS)) == pytest.approx(np.log(3.0))


def test_answer_when_rows_have_moved_up_then_is_read_where_they_are() -> None:
    logits = torch.arange(12.0).reshape(2, 3, 2)  # [input row output]
    answer = TargetAnswer(Answer(1, quantity="logit"), 2, ())
    assert answer.of(logits).tolist() == [5, 11]
    assert answer.of(logits, torch.tensor([0, 1])).tolist() == [5, 9]


def test_classifier_when_asked_for_several_targets_then_has_one_answer_over_all_tokens_but_special_ones() -> None:
    capture = tiny_subject("bert").capture("the old dog")
    (answer,) = answers(capture, [1, 2])
    assert (answer.row, answer.removable) == (None, (1, 2, 3))
    assert capture.logits is not None
    assert answer.answer.output == int(capture.logits.argmax())
    assert answers(capture, output=0)[0].answer.output == 0


def test_causal_model_when_asked_for_several_targets_then_each_has_its_row_and_earlier_tokens_only() -> None:
    capture = captured(BY_NAME["llama"])
    first, third = answers(capture, [0, 3])
    assert (first.row, first.removable) == (0, ())
    assert (third.row, third.removable) == (3, (0, 1, 2))


def test_encoder_decoder_when_a_source_position_is_the_target_then_is_refused() -> None:
    capture = captured(BY_NAME["bart"])
    assert capture.logits is not None
    before, count = len(capture.tokens) - len(capture.logits), len(capture.tokens)
    (answer,) = answers(capture, -1)
    assert answer.row == len(capture.logits) - 1
    assert answer.removable == tuple(range(count - 1))
    with pytest.raises(tw.InputError, match=f"position 1 belongs to the source text.*from {before} to {count - 1}"):
        answers(capture, [1, -1])


def test_model_when_it_has_a_single_logit_then_only_its_logit_is_explained() -> None:
    capture = tw.load(tiny_bert(labels=("one",)).eval(), wordpiece()).capture("the old dog")
    with pytest.raises(tw.InputError, match=r"single logit.*use quantity=logit"):
        answers(capture)
    (answer,) = target_answers(capture, find_target(capture, None), None, None, "logit")
    assert answer.answer == Answer(0, None, "logit")


def test_sources_when_attention_leads_through_another_token_then_are_visible() -> None:
    """Token 0 sees 1 in the first block and 1 sees 2 in the second, which comes too late for 0; not so for 1 and 0."""
    states = torch.zeros(3, 1)
    below = handmade(torch.tensor([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1.0]]), states, states)
    above = handmade(torch.tensor([[1.0, 0, 0], [0, 0.5, 0.5], [1, 0, 0]]), states, states)
    expected = [[True, True, False], [False, True, True], [True, True, True]]
    assert visible_sources(capture_of(3, below, above)).tolist() == expected


def test_assumptions_when_a_classifier_explains_a_position_then_say_that_it_has_one_answer() -> None:
    capture = tiny_subject("bert").capture("the old dog")
    whole, position = (find_target(capture, target) for target in (None, 2))
    assert answer_assumptions(capture, whole, "logit", 1) == (
        "scores explain the logit of the output minus that of the foil",
    )
    assert "explained instead of the position" in answer_assumptions(capture, position, "logit", None)[-1]
    assert len(answer_assumptions(replace(capture, readout=(2,)), position, "logit", None)) == 1
