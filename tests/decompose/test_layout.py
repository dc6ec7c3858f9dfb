"""A block's weights over all tokens of a capture."""

import torch

from tests.decompose.handmade import capture_of, handmade
from thalweg.decompose.layout import over_all_tokens

WEIGHTS = torch.tensor([[0.5, 0.5], [0.0, 1.0]])


def test_map_when_the_block_updates_all_tokens_then_is_its_weights() -> None:
    block = handmade(WEIGHTS, torch.eye(2), torch.eye(2))
    assert over_all_tokens(capture_of(2, block), block, WEIGHTS).tolist() == WEIGHTS.tolist()


def test_map_when_the_block_updates_the_other_sequence_then_the_rest_keeps_itself() -> None:
    block = handmade(WEIGHTS, torch.eye(2), torch.eye(2), queries=slice(2, 4), keys=slice(0, 2))
    step = over_all_tokens(capture_of(4, block), block, 0.5 * WEIGHTS, torch.tensor([0.5, 0.25]))
    assert step.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0.25, 0.25, 0.5, 0], [0, 0.5, 0, 0.25]]
