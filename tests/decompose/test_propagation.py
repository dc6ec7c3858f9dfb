"""Propagation of sources: sums stay exact, and biases go where they should."""

import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.decompose.handmade import capture_of, handmade
from tests.families import BY_NAME
from thalweg.capture.linear import Affine
from thalweg.capture.prove.mlp import residual_stream
from thalweg.decompose.logits import ExplainedLogit
from thalweg.decompose.propagation import Biases, Propagation

DOUBLED = Affine(2 * torch.eye(2), torch.tensor([3.0, 0.0]))  # x ↦ 2x + (3, 0)
PARTS = torch.tensor([[[1.0, 5.0], [0.5, 0.0]]])  # one token with two sources
APART = torch.cat([PARTS, torch.zeros(1, 1, 2)], 1)


def test_start_when_below_the_first_block_then_every_position_is_its_own_source() -> None:
    block = handmade(torch.eye(2), torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    parts = Propagation("absdot").start(capture_of(2, block))
    assert parts.tolist() == [[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 4.0]]]
    assert Propagation("apart").start(capture_of(2, block)).shape == (2, 3, 2)


def test_bias_when_shared_then_follows_the_size_of_its_products_with_the_sources() -> None:
    doubled = Propagation("absdot").through([DOUBLED], PARTS)
    assert doubled.tolist() == [[[4.0, 10.0], [2.0, 0.0]]]  # |b · 2x| = 6 and 3: two thirds of (3, 0), and one third


def test_bias_when_apart_then_stays_in_the_last_column() -> None:
    assert Propagation("apart").through([DOUBLED], APART).tolist() == [[[2.0, 10.0], [1.0, 0.0], [3.0, 0.0]]]
    assert APART[0, 2].tolist() == [0.0, 0.0]  # the input is left alone


@pytest.mark.parametrize(("biases", "expected"), [("absdot", [[4.0, 2.0]]), ("apart", [[2.0, 1.0, 3.0]])])
def test_read_when_the_head_has_a_bias_then_scores_sum_to_the_logit(
    biases: Biases, expected: list[list[float]]
) -> None:
    logit = ExplainedLogit((0,), (DOUBLED,), torch.tensor([[1.0, 0.0]]), torch.tensor([6.0]), False)
    assert Propagation(biases).read(logit, PARTS if biases == "absdot" else APART).tolist() == expected


@pytest.mark.parametrize("biases", ["absdot", "apart"])
@pytest.mark.parametrize("name", ["bert", "llama", "phi"])
def test_parts_when_propagated_through_a_layer_then_sum_to_its_output(name: str, biases: Biases) -> None:
    capture = captured(BY_NAME[name])
    stream, propagation = residual_stream(capture), Propagation(biases)
    layer, rows = stream.layers[0], list(range(len(capture.tokens)))
    start = propagation.start(capture)
    middle = propagation.attention(layer.block, stream.values[0], start, rows)
    after = propagation.feedforward(layer, start if layer.block.parallel else middle, middle, rows)
    torch.testing.assert_close(after.sum(1), layer.output, atol=1e-5, rtol=1e-4)


def test_layer_when_its_mlp_is_not_linear_then_is_refused() -> None:
    capture = captured(BY_NAME["mixtral"])
    stream, propagation = residual_stream(capture), Propagation("absdot")
    start, rows = propagation.start(capture), list(range(len(capture.tokens)))
    with pytest.raises(tw.InputError, match="MLP"):
        propagation.feedforward(stream.layers[0], start, start, rows)
