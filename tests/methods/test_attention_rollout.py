"""Attention rollout against the sum over all paths, and its options."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from tests.reference import twins


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
def test_attention_rollout_when_compared_with_all_paths_then_is_the_same(name: str, residual: float) -> None:
    capture = captured(BY_NAME[name])
    maps = [block.weights().mean(0) for block in capture.blocks]
    result = tw.explain(tw.load(BY_NAME[name].build()), capture, "attention_rollout", "all", residual=residual)
    np.testing.assert_allclose(result.scores, twins.attention_rollout(maps, residual).numpy(), atol=1e-6)


def test_attention_rollout_when_one_head_is_chosen_then_is_multiplied_with_the_means_below() -> None:
    capture = captured(BY_NAME["bert"])
    maps = [block.weights().mean(0) for block in capture.blocks[:2]] + [capture.blocks[2].weights()[3]]
    result = tw.explain(tw.load(BY_NAME["bert"].build()), capture, "attention_rollout", "all", head=3)
    np.testing.assert_allclose(result.scores, twins.attention_rollout(maps, 0.5).numpy(), atol=1e-6)


def test_attention_rollout_when_the_residual_is_measured_then_keeps_what_the_norms_say() -> None:
    capture = captured(BY_NAME["bert"])
    result = tw.explain(tw.load(BY_NAME["bert"].build()), capture, "attention_rollout", "all", residual="measured")
    assert result.per_layer is not None
    for step, block in zip(result.per_layer, capture.blocks, strict=True):
        kept = 1 - twins.mixing_ratio(block).numpy()
        np.testing.assert_allclose(step.diagonal(), kept, atol=1e-5)
        weights = block.weights().mean(0).numpy()
        expected = weights[0, 1:] / weights[0, 1:].sum() * (1 - kept[0])
        np.testing.assert_allclose(step[0, 1:], expected, atol=1e-5)


@pytest.mark.parametrize("method", ["attention_rollout", "attention_flow"])
def test_receptive_field_when_attention_is_even_then_leaves_no_token_ahead(method: str) -> None:
    family = BY_NAME["llama"]
    model = family.build()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "q_proj" in name:
                parameter.zero_()  # every query looks evenly at what it may see
    plain = tw.explain(tw.load(model), family.inputs(1, 8), method)
    corrected = tw.explain(tw.load(model), family.inputs(1, 8), method, receptive_field=True)
    assert plain.scores[0, 0] > 1.5 * plain.scores[0, 3]
    np.testing.assert_allclose(corrected.scores[0], 1 / 8, atol=1e-5)


@pytest.mark.parametrize("name", ["bart", "t5", "whisper"])
def test_encoder_decoder_when_rolled_out_then_is_one_graph(name: str) -> None:
    family = BY_NAME[name]
    capture = captured(family)
    subject = tw.load(family.build())
    result = tw.explain(subject, capture, "attention_rollout")
    source = capture.blocks[0].queries.stop
    by_hand = torch.eye(len(capture.tokens), dtype=torch.float64)
    for block in capture.blocks:
        moved = by_hand.clone()
        weights = block.weights().mean(0).double()
        moved[block.queries] = 0.5 * by_hand[block.queries] + 0.5 * weights @ by_hand[block.keys]
        by_hand = moved
    np.testing.assert_allclose(result.scores[0], by_hand[-1].numpy(), atol=1e-5)
    assert 0 < result.scores[0, :source].sum() < 1
    flow = tw.explain(subject, capture, "attention_flow", normalise=False)
    assert (flow.scores[0] >= result.scores[0] - 1e-6).all()


def test_receptive_field_when_weights_are_not_attention_then_is_refused(bundled: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match=r"receptive_field.*'effective'"):
        tw.explain(bundled, "a witty movie.", "attention_rollout", receptive_field=True, weights="effective")
