"""Effective attention as the weights of rollout and the capacities of flow."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME


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
    with pytest.raises(tw.InputError, match="measured residual"):
        tw.explain(subject, capture, "attention_rollout", -1, weights="effective", residual="measured")
    with pytest.raises(tw.InputError, match="effective weights have none"):
        tw.explain(subject, capture, "attention_rollout", -1, weights="effective", receptive_field=True)
