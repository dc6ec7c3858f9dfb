"""Gradients of attention weights against autograd through eager attention."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME


@pytest.mark.parametrize("method", ["attention_rollout", "attention_flow"])
def test_graph_when_weighted_by_gradients_then_follows_autograd_through_eager_attention(method: str) -> None:
    family = BY_NAME["bert"]
    model, inputs = family.build(), family.inputs(1, 8)
    subject = tw.load(model)
    result = tw.explain(subject, inputs, method, weights="attention_gradient")
    model.set_attn_implementation("eager")
    outputs = model(**inputs, output_attentions=True)
    gradients = torch.autograd.grad(outputs.logits[0].max(), outputs.attentions)
    assert result.per_layer is not None
    for step, weights, gradient in zip(result.per_layer, outputs.attentions, gradients, strict=True):
        positive = (weights * gradient)[0].clamp_min(0).mean(0)
        expected = positive + torch.eye(len(positive))
        expected = expected / expected.sum(-1, keepdim=True)
        np.testing.assert_allclose(step, expected.detach().numpy(), atol=1e-5)


def test_gradient_weights_when_there_is_no_output_then_are_refused() -> None:
    family = BY_NAME["nomic_bert"]
    with pytest.raises(tw.InputError, match="one output"):
        tw.explain(tw.load(family.build()), family.inputs(1, 6), "attention_rollout", weights="attention_gradient")
