"""Parts of a block's output: what belongs to whom in blocks made by hand; a wrong output is refused."""

from dataclasses import replace

import pytest
import torch

import thalweg as tw
from tests.decompose.handmade import handmade
from thalweg.decompose.parts import decompose, mixing_ratio

WEIGHTS = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
VALUES = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
STATES = torch.tensor([[1.0, 1.0], [3.0, 0.0]])


def test_parts_when_the_block_is_plain_then_are_values_and_residual() -> None:
    parts = decompose(handmade(WEIGHTS, VALUES, STATES))
    assert parts.vectors.tolist() == [VALUES.tolist()]
    assert parts.own.tolist() == STATES.tolist()
    assert parts.rest.abs().max() == 0
    assert parts.mixes_itself
    assert parts.diagonal().tolist() == [[2.0, 1.0], [3.0, 4.0]]  # residual and half of (2, 0); residual and (0, 4)


def test_parts_when_scaled_and_biased_then_the_scale_is_in_the_vectors_and_the_bias_in_the_rest() -> None:
    block = handmade(WEIGHTS, VALUES, STATES)
    bias = torch.tensor([1.0, -1.0])
    branch = 3 * (block.output - block.input + bias)
    scaled = replace(block, multiplier=3.0, bias=bias, summed=block.input + branch, output=block.input + branch)
    parts = decompose(scaled)
    assert parts.vectors.tolist() == [(3 * VALUES).tolist()]
    assert parts.rest.tolist() == [[3.0, -3.0], [3.0, -3.0]]


def test_parts_when_only_attention_is_included_then_the_residual_is_left_out() -> None:
    parts = decompose(handmade(WEIGHTS, VALUES, STATES), "attention")
    assert parts.own.abs().max() == 0
    assert parts.output.tolist() == (WEIGHTS @ VALUES).tolist()


def test_parts_when_queries_are_not_keys_then_the_residual_stays_apart() -> None:
    parts = decompose(handmade(WEIGHTS, VALUES, STATES, queries=slice(2, 4), keys=slice(0, 2)))
    assert not parts.mixes_itself
    assert parts.diagonal().tolist() == STATES.tolist()


def test_mixing_ratio_when_half_of_the_length_comes_from_others_then_is_their_share() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), VALUES, torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    assert mixing_ratio(decompose(block)).tolist() == [0.5, 0.0]  # (0, 4) beside (4, 0); nothing beside (0, 4)


def test_parts_when_the_output_is_another_then_are_refused_with_the_error_and_the_tolerance() -> None:
    block = handmade(WEIGHTS, VALUES, STATES)
    with pytest.raises(tw.ProofError, match=r"'by hand'.*1\.0e-04"):
        decompose(replace(block, output=block.output + 1))
