"""ALTI and its family: closed forms, invariants, and what heads, segments and layers add up to."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from thalweg.capture.record import Attention, Block, Capture
from thalweg.decompose.contribution_graph import step_of
from thalweg.decompose.contributions import head_proximity, proximity, shares
from thalweg.decompose.parts import decompose

SENTENCE = "a gorgeous, witty, seductive movie."


def handmade(weights: Tensor, values: Tensor, states: Tensor) -> Block:
    """A pre-norm block of one head with an identity as projection: y_i = x_i + Σ_j a_ij v_j."""
    mixed = weights @ values
    attention = Attention(values[None], mixed[:, None], kept=weights[None])
    everything = slice(0, len(states))
    return Block(
        name="by hand", role="self", attention=attention, projection=torch.eye(states.shape[1])[None],
        bias=None, branch_norm=None, scale=None, multiplier=1.0, input=states, summed=states + mixed,
        output=states + mixed, norm=None, parallel=False, queries=everything, keys=everything, parity=0.0,
        sum_error=0.0, tolerance=1e-4,
    )  # fmt: skip


def test_alti_when_a_token_gives_half_of_everything_then_has_half_the_share() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[9.0, 9.0], [1.0, 2.0]]),
                     torch.tensor([[1.0, 2.0], [3.0, 6.0]]))  # fmt: skip
    near = proximity(decompose(block), "l1")
    assert near[0].tolist() == [3.0, 3.0]  # y = (2, 4): either half comes three of six nearer
    assert near[1].tolist() == [0.0, 12.0]  # token 1 is all of it, residual and attention together


def test_alti_when_a_part_points_away_then_it_contributes_nothing() -> None:
    block = handmade(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [-1.0, -1.0]]),
                     torch.tensor([[3.0, 3.0], [3.0, 3.0]]))  # fmt: skip
    near = proximity(decompose(block), "l1")
    assert near[0, 1] == 0
    assert near[0, 0] > 0


def test_row_when_nothing_contributes_then_stays_with_its_token_and_is_counted() -> None:
    shared, empty = shares(torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.tensor([0, 1]))
    assert shared.tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert empty == 1
    capture = captured(BY_NAME["bert"])
    step, none = step_of(capture, capture.blocks[0], torch.zeros(12, 12))
    assert none == 12
    assert torch.equal(step, torch.eye(12))


@given(st.integers(0, 10_000))
def test_proximity_when_measured_then_lies_between_nothing_and_the_smaller_norm(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(4, 4, generator=generator).softmax(-1)
    block = handmade(weights, torch.randn(4, 5, generator=generator), torch.randn(4, 5, generator=generator))
    parts = decompose(block)
    near = proximity(parts, "l1")
    sizes = (weights[:, :, None] * parts.vectors[0]).clone()
    sizes[range(4), range(4)] += parts.own
    assert (near >= 0).all()
    assert (near <= torch.minimum(block.output.abs().sum(-1)[:, None], sizes.abs().sum(-1)) + 1e-4).all()
    bigger = replace(block, input=3 * block.input, summed=3 * block.summed, output=3 * block.output)
    values = 3 * block.attention.value
    scaled = replace(bigger, attention=replace(block.attention, value=values, output=3 * block.attention.output))
    torch.testing.assert_close(proximity(decompose(scaled), "l1"), 3 * near, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("method", ["alti", "norm_based"])
def test_contributions_when_values_are_nothing_then_every_token_keeps_itself(method: str) -> None:
    family = BY_NAME["llama"]
    model = family.build()
    subject = tw.load(model)
    subject.capture(family.inputs(1, 7))  # learns the wiring while there is something to see
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "v_proj" in name:
                parameter.zero_()
    result = tw.explain(subject, family.inputs(1, 7), method, "all")
    np.testing.assert_allclose(result.scores, np.eye(7), atol=1e-5)


def test_contributions_when_a_head_projects_to_nothing_then_it_has_no_share() -> None:
    family = BY_NAME["gpt2"]
    model = family.build()
    with torch.no_grad():
        model.get_parameter("transformer.h.2.attn.c_proj.weight")[8:16] = 0  # the rows of head 1
    subject = tw.load(model)
    capture = subject.capture(family.inputs(1, 7))
    assert isinstance(capture, Capture)
    apart, own = head_proximity(decompose(capture.blocks[2]), "l1")
    assert apart[1].abs().max() < 1e-4 * apart[0].max()
    assert own.shape == (7,)
    shares_of = [tw.explain(subject, capture, "alti", "all", head=head).scores.sum(1) for head in range(4)]
    assert shares_of[1].max() < 1e-4
    residual = (own / (apart.sum((0, 2)) + own)).numpy()
    np.testing.assert_allclose(sum(shares_of) + residual, 1, atol=1e-5)


def test_two_equal_tokens_when_asked_for_then_give_the_same_to_all_others() -> None:
    family = BY_NAME["bert"]
    model = family.build()
    with torch.no_grad():
        model.get_parameter("bert.embeddings.position_embeddings.weight").zero_()
    result = tw.explain(tw.load(model), [7, 9, 11, 9, 20], "alti", "all", layer=0)
    scores = result.scores
    np.testing.assert_allclose(scores[[0, 2, 4], 1], scores[[0, 2, 4], 3], atol=1e-6)
    np.testing.assert_allclose(scores[1, 1], scores[3, 3], atol=1e-6)


@pytest.mark.parametrize("name", ["bart", "t5", "whisper"])
def test_encoder_decoder_when_explained_then_source_and_prefix_share_each_token(name: str) -> None:
    family = BY_NAME[name]
    result = tw.explain(tw.load(family.build()), captured(family), "alti")
    source, prefix = result.by_segment()[0]
    assert 0 < source < 1
    assert source + prefix == pytest.approx(1, abs=1e-5)


def test_norm_based_when_only_attention_counts_then_is_the_size_of_what_it_brings() -> None:
    capture = captured(BY_NAME["bert"])
    result = tw.explain(tw.load(BY_NAME["bert"].build()), capture, "norm_based", "all", include="attention", layer=0)
    block = capture.blocks[0]
    vectors = torch.einsum("hij,hjv,hvd->ijd", block.weights(), block.attention.values(), block.projection)
    expected = vectors.norm(dim=-1)
    np.testing.assert_allclose(result.scores, (expected / expected.sum(-1, keepdim=True)).numpy(), atol=1e-5)
    assert 0 < result.receipt.figures["mean mixing ratio"] < 1


def test_value_zeroing_when_compared_with_zeroing_by_hand_then_is_the_same() -> None:
    family = BY_NAME["bert"]
    model, inputs = family.build(), family.inputs(1, 6)
    result = tw.explain(tw.load(model), inputs, "value_zeroing", "all")
    assert result.per_layer is not None
    for number in range(3):
        with torch.no_grad():
            before = model(**inputs, output_hidden_states=True).hidden_states[number + 1][0]
        by_hand = torch.zeros(6, 6)
        for key in range(6):

            def silence(_: object, __: object, output: Tensor, key: int = key) -> Tensor:
                output = output.clone()
                output[:, key] = 0
                return output

            value = model.get_submodule(f"bert.encoder.layer.{number}.attention.self.value")
            hook = value.register_forward_hook(silence)
            with torch.no_grad():
                after = model(**inputs, output_hidden_states=True).hidden_states[number + 1][0]
            hook.remove()
            by_hand[:, key] = 1 - torch.nn.functional.cosine_similarity(after, before)
        expected = by_hand / by_hand.sum(-1, keepdim=True)
        np.testing.assert_allclose(result.per_layer[number], expected.numpy(), atol=1e-4)


def test_rows_when_only_some_are_asked_for_then_are_those_of_all(shipped: tw.Subject) -> None:
    capture = shipped.capture(SENTENCE)
    everything = tw.explain(shipped, capture, "alti", "all").scores
    np.testing.assert_allclose(tw.explain(shipped, capture, "alti", [3, 1]).scores, everything[[3, 1]], atol=1e-6)
