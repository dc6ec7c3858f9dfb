"""The nudged pass: states with ε = 0 are the model's own, and ε moves them."""

from typing import Any

import torch

import thalweg as tw
from tests.decompose.frozen import frozen
from tests.families import BY_NAME
from thalweg.capture.record import Capture
from thalweg.decompose.nudge import Nudge


def test_states_when_the_change_is_zero_then_are_those_of_the_model() -> None:
    family = BY_NAME["bert"]
    model: Any = family.build()
    inputs = family.inputs(1, 5)
    capture = tw.load(model).capture(inputs)
    assert isinstance(capture, Capture)
    with torch.no_grad():
        states = Nudge(capture, "embeddings", len(capture.blocks), torch.zeros(5, capture.width)).states()
        hidden = model(**inputs, output_hidden_states=True).hidden_states
    assert states[0].abs().max() == 0  # layer 0 is ε itself: its derivative is the identity
    torch.testing.assert_close(states[1:], torch.cat(hidden)[1:])


def test_states_when_the_model_is_linear_then_move_by_its_matrix() -> None:
    weights, maps = torch.eye(2)[None, None], 2 * torch.eye(3)[None, None]  # y = x + 2x
    capture, change = frozen(weights, maps), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    moved, still = (Nudge(capture, "embeddings", 1, epsilon).states()[1] for epsilon in (change, 0 * change))
    torch.testing.assert_close(moved - still, 3 * change)


def test_pass_when_only_lower_layers_are_needed_then_stops_there() -> None:
    capture = frozen(torch.eye(2).expand(3, 1, 2, 2), torch.eye(3).expand(3, 1, 3, 3))
    nudge = Nudge(capture, "embeddings", 2, torch.zeros(2, 3))
    assert len(nudge.states()) == 3
    assert len(nudge.collected) == 2
