"""Closed forms of rollout, and the options that rollout and flow share, on real captures."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from tests.reference import twins
from thalweg.aggregate.rollout import rollout
from thalweg.decompose.rows import normalised, relative_to

SENTENCE = "a gorgeous, witty, seductive movie."


def stochastic(data: st.DataObject, layers: int, tokens: int) -> list[torch.Tensor]:
    raw = data.draw(arrays(np.float64, (layers, tokens, tokens), elements=st.floats(0.01, 1)))
    return list(torch.from_numpy(raw / raw.sum(-1, keepdims=True)))


@given(st.data())
def test_rollout_when_layers_are_distributions_then_so_are_its_rows(data: st.DataObject) -> None:
    steps = stochastic(data, 3, 4)
    rolled = rollout(steps, range(4))
    torch.testing.assert_close(rolled.sum(-1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(rolled, steps[2] @ rollout(steps[:2], range(4)))
    torch.testing.assert_close(rollout(steps, [2]), rolled[[2]])


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_rollout_when_attention_is_even_then_has_its_closed_form(layers: int) -> None:
    n = 6
    even = torch.full((n, n), 1 / n, dtype=torch.float64)
    steps = [0.5 * even + 0.5 * torch.eye(n, dtype=torch.float64)] * layers
    kept = 2.0**-layers
    expected = kept * torch.eye(n, dtype=torch.float64) + (1 - kept) * even
    torch.testing.assert_close(rollout(steps, range(n)), expected)


def test_rollout_when_two_layers_differ_then_the_higher_one_stands_on_the_left() -> None:
    lower = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # token 1 copies token 0
    upper = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])  # then token 2 copies token 1
    assert rollout([lower, upper], [2]).tolist() == [[1.0, 0.0, 0.0]]
    assert rollout([upper, lower], [2]).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
def test_attention_rollout_when_compared_with_all_paths_then_is_the_same(name: str, residual: float) -> None:
    capture = captured(BY_NAME[name])
    maps = [block.weights().mean(0) for block in capture.blocks]
    result = tw.explain(tw.load(BY_NAME[name].build()), capture, "attention_rollout", "all", residual=residual)
    np.testing.assert_allclose(result.scores, twins.attention_rollout(maps, residual).numpy(), atol=1e-6)


def test_attention_rollout_when_one_head_is_chosen_then_it_stands_over_the_mean_of_those_below() -> None:
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


def test_flow_when_rows_are_not_normalised_then_is_never_below_rollout(shipped: tw.Subject) -> None:
    capture = shipped.capture(SENTENCE)
    flow = tw.explain(shipped, capture, "attention_flow", "all", normalise=False)
    rolled = tw.explain(shipped, capture, "attention_rollout", "all")
    assert (flow.scores >= rolled.scores - 1e-6).all()
    assert flow.receipt.figures["flow gap"] < 1e-9
    checked = tw.explain(shipped, capture, "attention_flow", "all", normalise=False, solver="scipy")
    np.testing.assert_allclose(flow.scores, checked.scores, atol=1e-6)


def test_flow_when_only_the_first_layer_is_asked_then_is_its_capacities(shipped: tw.Subject) -> None:
    capture = shipped.capture(SENTENCE)
    flow = tw.explain(shipped, capture, "attention_flow", "all", layer=0, normalise=False)
    weights = capture.blocks[0].weights().mean(0).numpy()
    np.testing.assert_allclose(flow.scores, 0.5 * weights + 0.5 * np.eye(len(weights)), atol=1e-6)


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


def test_rows_when_normalised_or_compared_then_zero_rows_stay_zero() -> None:
    scores = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    assert normalised(scores).tolist() == [[0.25, 0.75], [0.0, 0.0]]
    compared = relative_to(scores, torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    assert compared.tolist() == [[0.25, 0.75], [0.0, 0.0]]
