"""Attention graphs of blocks made by hand, effective attention as weights, and incompatible options."""

from math import inf

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.decompose.handmade import capture_of, handmade
from tests.families import BY_NAME
from thalweg.capture.target import Target
from thalweg.decompose.attention_graph import AttentionGraph, attention_graph, block_weights

WEIGHTS = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
TARGET = Target((0, 1))


def test_graph_when_the_residual_has_a_share_then_attention_has_the_rest() -> None:
    block = handmade(WEIGHTS, torch.eye(2), torch.eye(2))
    graph = attention_graph(capture_of(2, block), TARGET, residual=0.75)
    assert graph.steps[0].tolist() == [[0.75, 0.25], [0.125, 0.875]]
    assert graph.assumed == ("the residual keeps a share of 0.75 in every layer",)


def test_graph_when_even_then_every_visible_key_has_the_same_weight() -> None:
    block = handmade(WEIGHTS, torch.eye(2), torch.eye(2))  # the first row does not see the first key
    graph = attention_graph(capture_of(2, block), TARGET, residual=0.0, even=True)
    assert graph.steps[0].tolist() == [[0.0, 1.0], [0.5, 0.5]]


def test_capacities_when_edges_are_negative_or_tokens_untouched_then_are_zero_or_unlimited() -> None:
    block = handmade(WEIGHTS, torch.eye(2), torch.eye(2), queries=slice(2, 4), keys=slice(0, 2))
    step = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0.25, -0.25, 1, 0], [0.5, 0.25, 0, 0.25]])
    (capacities,) = AttentionGraph((step,), (block,), (0.0,), ()).capacities()
    assert capacities.tolist() == [[inf, 0, 0, 0], [0, inf, 0, 0], [0.25, 0, 1, 0], [0.5, 0.25, 0, 0.25]]


def test_block_weights_when_a_head_is_chosen_or_reweighted_then_are_its_map() -> None:
    block = captured(BY_NAME["bert"]).blocks[0]
    mean, parity = block_weights(block)
    torch.testing.assert_close(mean, block.weights().mean(0))
    torch.testing.assert_close(block_weights(block, 2)[0], block.weights()[2])
    torch.testing.assert_close(block_weights(block, None, lambda _, weights: 2 * weights)[0], 2 * mean)
    assert parity <= block.parity_tolerance


@pytest.mark.parametrize("head", [-1, 4])
def test_head_when_the_block_does_not_have_it_then_the_error_names_the_range(head: int) -> None:
    with pytest.raises(tw.InputError, match=rf"0 to 3.*got {head}"):
        block_weights(captured(BY_NAME["bert"]).blocks[0], head)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"residual": 1.5}, "0 to 1.*1.5"),
        ({"residual": -0.1}, "0 to 1.*-0.1"),
        ({"residual": "measured", "weights": "effective"}, "'measured'.*'effective'"),
    ],
)
def test_graph_when_options_do_not_fit_then_the_error_names_them(options: dict, words: str) -> None:
    with pytest.raises(tw.InputError, match=words):
        attention_graph(captured(BY_NAME["bert"]), TARGET, **options)


@pytest.mark.parametrize("constraint", ["none", "row_sum"])
def test_effective_attention_when_it_is_the_weights_of_rollout_then_multiplies_signed_maps(constraint: str) -> None:
    family = BY_NAME["bert"]
    capture, subject = captured(family), tw.load(family.build())
    name = "effective" if constraint == "none" else "effective_row_sum"
    attribution = tw.explain(subject, capture, "attention_rollout", "all", weights=name)
    product = torch.eye(len(capture.tokens)).double()
    for layer in range(len(capture.blocks)):
        single = tw.explain(subject, capture, "effective_attention", "all", layer=layer, constraint=constraint)
        own = torch.from_numpy(single.scores.copy())
        product = (0.5 * torch.eye(len(own)) + 0.5 * own) @ product
    np.testing.assert_allclose(attribution.scores, product.numpy(), atol=1e-5)
    assert any("effective" in sentence for sentence in attribution.receipt.assumed)
    if constraint == "row_sum":
        assert attribution.row_sum_error < 1e-5


def test_effective_attention_when_it_is_the_capacity_of_flow_then_nothing_flows_below_zero() -> None:
    family = BY_NAME["bert"]
    capture, subject = captured(family), tw.load(family.build())
    attribution = tw.explain(subject, capture, "attention_flow", -1, weights="effective")
    assert attribution.scores.min() >= 0
    assert attribution.row_sum_error < 1e-6
    assert any("negative" in sentence for sentence in attribution.receipt.assumed)
    with pytest.raises(tw.InputError, match="measured"):
        tw.explain(subject, capture, "attention_rollout", -1, weights="effective", residual="measured")
    with pytest.raises(tw.InputError, match="effective"):
        tw.explain(subject, capture, "attention_rollout", -1, weights="effective", receptive_field=True)
