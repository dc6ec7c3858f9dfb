"""Norms of Jacobian blocks against the slow twin, on every family."""

from typing import Any

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.families import BY_NAME, PROVED, Family
from tests.reference import twins
from thalweg.capture.record import Capture
from thalweg.decompose.jacobians import jacobians

each = pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)
LENGTH = 3
# Between self- and cross-attention the state is a variable of the layer's code.
NO_LAYERS = ("mbart", "pegasus", "m2m_100", "blenderbot", "whisper")


def modelled(family: Family) -> tuple[Any, dict[str, Tensor], Capture]:
    model, inputs = family.build(), family.inputs(1, LENGTH)
    capture = tw.load(model).capture(inputs)
    assert isinstance(capture, Capture)
    return model, inputs, capture


def hidden_states(model: Any, inputs: dict[str, Tensor]) -> list[tuple[Tensor, ...]]:
    """The hidden states that transformers returns, with their graph: of the source, if there is one, and the target.

    The last one may follow a final norm, and is then not the layer's own.
    """
    result = model(**inputs, output_hidden_states=True)
    pair = ("encoder_hidden_states", "decoder_hidden_states")
    return [result[name] for name in (pair if pair[0] in result else ("hidden_states",))]


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=2e-4)


@each
def test_jacobians_when_compared_with_plain_autograd_then_are_the_same(family: Family) -> None:
    model, inputs, capture = modelled(family)
    result = jacobians(capture, rtol=None)
    sides = hidden_states(model, inputs)
    sources = [side[0] for side in sides]
    last = capture.blocks[-1].queries
    if len(sides) == 2:  # the last state of an encoder-decoder is what its decoder returns
        same(result.norms[-1, last], twins.jacobian_norms(sides[1][-1][0], sources))
        same(result.norms[2, : last.start, : last.start], twins.jacobian_norms(sides[0][-1][0], sources[:1]))
    else:
        layer = 3 if "post_norm" in family.traits else 2
        same(result.norms[layer], twins.jacobian_norms(sides[0][layer][0], sources))
    only = jacobians(capture, rtol=None, rows=[len(capture.tokens) - 1])
    same(only.norms[0], result.norms[-1, -1:])


@each
def test_jacobians_when_taken_from_layer_to_layer_then_are_those_of_plain_autograd(family: Family) -> None:
    model, inputs, capture = modelled(family)
    if family.name in NO_LAYERS:
        with pytest.raises(tw.ModelError, match="is read at other places too"):
            jacobians(capture, rtol=None, start="layer")
        return
    result = jacobians(capture, rtol=None, start="layer")
    target = hidden_states(model, inputs)[-1]
    if len(capture.blocks) == 3:
        same(result.norms[2], twins.jacobian_norms(target[2][0], [target[1]]))
    assert torch.equal(result.norms[0] > 0, torch.eye(len(capture.tokens), dtype=torch.bool))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gptj"])
def test_jacobians_when_a_final_norm_follows_then_are_those_before_it(name: str) -> None:
    model, inputs, capture = modelled(BY_NAME[name])
    stack = model.base_model
    kept: list[Tensor] = []
    layers = stack.layers if name == "llama" else stack.h
    layers[-1].register_forward_hook(lambda _, __, output: kept.append(output[0] if output[0].dim() == 3 else output))
    (states,) = hidden_states(model, inputs)
    expected = twins.jacobian_norms(kept[-1][0], [states[0]])
    same(jacobians(capture, rtol=None).norms[-1], expected)


def test_jacobians_when_the_norm_is_spectral_then_are_the_largest_singular_values() -> None:
    model, inputs, capture = modelled(BY_NAME["bert"])
    (states,) = hidden_states(model, inputs)
    result = jacobians(capture, rtol=None, norm="spectral")
    same(result.norms[3], twins.jacobian_norms(states[3][0], [states[0]], spectral=True))
    same(result.norms[0], torch.eye(LENGTH))


def test_shortcut_when_ones_are_pulled_back_then_it_is_something_else() -> None:
    model, inputs, capture = modelled(BY_NAME["bert"])
    (states,) = hidden_states(model, inputs)
    exact = jacobians(capture, rtol=None).norms[2]
    short = []
    for state in states[2][0]:
        (slope,) = torch.autograd.grad(state, states[0], torch.ones_like(state), retain_graph=True)
        short.append(slope[0].norm(dim=-1))
    away = torch.stack(short) / torch.stack(short).sum(-1, keepdim=True) / (exact / exact.sum(-1, keepdim=True)) - 1
    assert away.abs().max() > 0.2
