"""States and gradients at the embedding output, where the first block reads it."""

from typing import Any

import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.decompose.frozen import frozen
from tests.faithfulness.cases import FAMILY_TEXTS
from tests.families import BY_NAME
from tests.tiny import snapshot, tiny_subject
from thalweg.capture.record import Capture
from thalweg.capture.target import find_target
from thalweg.decompose.answers import TargetAnswer, target_answers
from thalweg.decompose.embeddings import (
    answers_at,
    blank_output,
    copies_at_once,
    embedding_output,
    gradients,
    reduced,
)

TEXT = "the old dog sees a new cat ."


def answers(capture: Capture, target: object = None) -> list[TargetAnswer]:
    return target_answers(capture, find_target(capture, target), None, None, "probability")  # pyright: ignore[reportArgumentType]


def test_gradient_when_taken_then_is_that_of_the_encoder_alone_and_nothing_is_embedded_twice() -> None:
    subject = tiny_subject("bert")
    capture, model = subject.capture(TEXT), subject.model
    own: Any = model
    ids = torch.tensor([capture.tokens.ids])
    with torch.no_grad():
        states = own.bert.embeddings(input_ids=ids)
    states.requires_grad_()
    assert torch.allclose(embedding_output(capture), states[0], atol=1e-6)
    (answer,) = answers(capture)
    output = answer.answer.output
    top = own.bert.encoder(states).last_hidden_state
    probability = own.classifier(own.bert.pooler(top)).softmax(-1)[0, output]
    (slope,) = torch.autograd.grad(probability, states)
    values, slopes = gradients(capture, [answer])
    assert torch.allclose(slopes, slope, atol=1e-6)
    assert float(values) == pytest.approx(float(probability.detach()), abs=1e-6)
    twice = own(inputs_embeds=states).logits.softmax(-1)[0, output]
    (wrong,) = torch.autograd.grad(twice, states)
    assert not torch.allclose(slope, wrong, atol=1e-3 * float(slope.abs().max()))


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "electra"])
def test_states_when_put_back_then_the_answer_is_the_models_own(family: str) -> None:
    subject = tiny_subject(family)
    capture = subject.capture(FAMILY_TEXTS.get(family, TEXT))
    before, own = snapshot(subject.model), answers(capture)
    assert capture.logits is not None
    with torch.no_grad():
        computed = answers_at(capture, own, embedding_output(capture)[None].repeat(2, 1, 1))
    expected = float(own[0].of(capture.logits[None]))
    assert computed.tolist() == [[pytest.approx(expected, abs=1e-6)] * 2]
    assert snapshot(subject.model) == before


@pytest.mark.parametrize("name", ["bart", "t5", "whisper"])
def test_states_when_there_are_two_sequences_then_source_and_target_are_replaced(name: str) -> None:
    capture = captured(BY_NAME[name])
    own, states = answers(capture, -1), embedding_output(capture)
    assert states.shape == (len(capture.tokens), capture.width)
    assert capture.logits is not None
    source, target = states.clone(), states.clone()
    source[1] = 0
    target[-1] = 0
    with torch.no_grad():
        same, first, second = answers_at(capture, own, torch.stack([states, source, target]))[0].tolist()
    assert same == pytest.approx(float(own[0].of(capture.logits[None])), abs=1e-6)
    assert len({round(value, 9) for value in (same, first, second)}) == 3


def test_blanks_when_there_is_a_mask_token_then_are_its_embedding_at_each_position() -> None:
    subject = tiny_subject("bert")
    capture = subject.capture("the old dog")
    states, label = blank_output(capture, (1, 3))
    assert label == "the token [MASK]"
    masked = subject.capture("[MASK] old [MASK]")
    assert torch.allclose(states, embedding_output(masked), atol=1e-6)
    assert not torch.allclose(states, embedding_output(capture), atol=1e-3)


def test_blanks_when_the_example_is_padded_or_has_two_sequences_then_its_own_tokens_are_replaced() -> None:
    subject = tiny_subject("bert")
    captures = subject.capture(["the old dog sees a cat", "the old dog"])
    assert isinstance(captures, list)
    short = captures[1]
    alone = subject.capture("the old dog")
    assert torch.allclose(blank_output(short, (1, 3))[0], blank_output(alone, (1, 3))[0], atol=1e-5)
    both = tiny_subject("bart").capture("the old dog", target_text="a cat")
    changed = (blank_output(both, (1, len(both.tokens) - 1))[0] - embedding_output(both)).abs().amax(1) > 1e-6
    assert changed.nonzero().flatten().tolist() == [1, len(both.tokens) - 1]


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_blanks_when_there_is_no_such_token_then_are_zeros(name: str) -> None:
    capture = captured(BY_NAME[name])
    states, label = blank_output(capture, (2,))
    assert "a state of zeros" in label
    assert states[2].abs().max() == 0
    assert torch.equal(states[3:], embedding_output(capture)[3:])


def test_reduction_when_by_hand_then_is_a_sum_a_norm_or_a_mean() -> None:
    vector = torch.tensor([[3.0, -4.0]])
    assert [float(reduced(vector, kind)) for kind in ("sum", "l2", "mean_abs")] == [-1, 5, 3.5]


def test_copies_when_the_text_is_long_then_are_fewer() -> None:
    capture = captured(BY_NAME["bert"])
    assert copies_at_once(capture) == 4096 // len(capture.tokens)


def test_states_when_the_model_reads_them_at_other_places_too_then_are_refused() -> None:
    capture = frozen(torch.ones(1, 1, 2, 2) / 2, torch.eye(2)[None, None], fixed=True)
    with pytest.raises(tw.ModelError, match="read at other places"):
        answers_at(capture, [], embedding_output(capture)[None])
