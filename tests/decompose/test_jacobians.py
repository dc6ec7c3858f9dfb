"""Jacobians: closed forms, invariants, finite differences, and the sketch on real models."""

from typing import Any

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.architectures import captured
from tests.decompose.frozen import frozen
from tests.families import BY_NAME
from tests.tiny import SENTENCE, snapshot, tiny_subject
from thalweg.capture.record import Capture
from thalweg.decompose.jacobians import jacobians
from thalweg.decompose.sketch import CONFIDENCE, NEGLIGIBLE


def shares(norms: Tensor) -> Tensor:
    return norms / norms.sum(-1, keepdim=True)


def test_jacobians_when_attention_is_frozen_and_linear_then_have_their_closed_form() -> None:
    torch.manual_seed(0)
    weights, maps = torch.rand(2, 2, 4, 4).softmax(-1), torch.randn(2, 2, 6, 6)
    heads = torch.einsum("lhij,lhde->liejd", weights, maps)  # Σ_h α_ij W_hᵀ as [layer target width source width]
    steps = torch.eye(24) + heads.reshape(2, 24, 24)

    def closed(jacobian: Tensor) -> Tensor:
        return jacobian.reshape(4, 6, 4, 6).square().sum((1, 3)).sqrt()

    capture = frozen(weights, maps)
    expected = torch.stack([closed(torch.eye(24)), closed(steps[0]), closed(steps[1] @ steps[0])])
    torch.testing.assert_close(jacobians(capture, rtol=None).norms, expected)
    torch.testing.assert_close(jacobians(capture, rtol=None, rows=[0, 2]).norms[0], expected[-1, [0, 2]])
    torch.testing.assert_close(jacobians(capture, rtol=None, start="layer").norms[2], closed(steps[1]))


def test_shares_when_each_token_attends_to_itself_only_then_are_the_identity() -> None:
    capture = frozen(torch.eye(3).expand(2, 1, 3, 3), torch.randn(2, 1, 5, 5))
    assert torch.equal(shares(jacobians(capture).norms), torch.eye(3).expand(3, 3, 3))


def test_state_when_it_is_read_at_other_places_too_then_is_refused() -> None:
    capture = frozen(torch.eye(3)[None, None], torch.randn(1, 1, 5, 5), fixed=True)
    with pytest.raises(tw.ModelError, match="read at other places too: a derivative would be incomplete"):
        jacobians(capture)


def test_model_when_a_layer_reads_the_embeddings_again_then_is_refused() -> None:
    family = BY_NAME["granite"]  # the embeddings are seen by its rotary module before they are a state
    model: Any = family.build()
    kept: list[Tensor] = []
    model.model.rotary_emb.register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    model.model.layers[1].mlp.register_forward_hook(lambda _, __, output: output + kept[-1])
    with pytest.raises(tw.ProofError, match="goes around the chain of blocks"):
        tw.load(model).capture(family.inputs(1, 5))


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "bart"])
def test_layer_zero_when_measured_then_is_the_identity(name: str) -> None:
    identity = jacobians(captured(BY_NAME[name]), rtol=None).norms[0]
    torch.testing.assert_close(identity, captured(BY_NAME[name]).width ** 0.5 * torch.eye(len(identity)))


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "bloom", "mixtral"])
def test_jacobians_when_the_model_is_causal_then_are_lower_triangular(name: str) -> None:
    norms = jacobians(captured(BY_NAME[name]), rtol=None).norms
    assert norms.triu(1).abs().max() == 0
    assert norms.diagonal(dim1=1, dim2=2).min() > 0


def test_jacobians_when_differences_are_taken_by_hand_then_are_near() -> None:
    family = BY_NAME["bert"]
    model: Any = family.build().double()
    inputs = family.inputs(1, 4)
    capture = tw.load(model).capture(inputs)
    assert isinstance(capture, Capture)
    exact = jacobians(capture, rtol=None).norms
    step, source = 1e-5, 2

    def moved(direction: Tensor) -> Tensor:
        handle = model.bert.embeddings.register_forward_hook(lambda _, __, output: output + direction)
        with torch.no_grad():
            states = model(**inputs, output_hidden_states=True).hidden_states
        handle.remove()
        return torch.cat(states)  # [layer token width]

    squares = torch.zeros(4, 4, dtype=torch.float64)
    for axis in range(32):
        direction = torch.zeros(1, 4, 32, dtype=torch.float64)
        direction[0, source, axis] = step
        squares += ((moved(direction) - moved(-direction)) / (2 * step)).square().sum(-1)
    torch.testing.assert_close(exact[:, :, source], squares.sqrt(), rtol=1e-6, atol=1e-8)


def test_sketch_when_run_on_a_model_then_keeps_its_relative_error(bundled: tw.Subject) -> None:
    capture = bundled.capture("a witty movie.")
    exact = shares(jacobians(capture, rtol=None).norms)
    for rtol, rows in ((0.2, None), (0.05, None), (0.05, [0, 2, 4])):
        sketch = jacobians(capture, rtol=rtol, rows=rows, seed=3)
        assert sketch.errors.max() <= rtol
        right = exact if rows is None else exact[-1:, rows]
        away = (shares(sketch.norms) - right).abs() / right.clamp_min(NEGLIGIBLE / len(capture.tokens))
        assert (away <= rtol).double().mean() >= CONFIDENCE
        assert away.max() <= 1.5 * rtol


def test_sketch_when_all_directions_are_used_then_is_exact() -> None:
    capture = captured(BY_NAME["bert"])
    sketch = jacobians(capture, rtol=1e-6)
    assert sketch.most_directions == capture.width
    torch.testing.assert_close(sketch.norms, jacobians(capture, rtol=None).norms, rtol=1e-4, atol=1e-5)


def test_sketch_when_it_would_need_most_directions_then_all_are_used_instead(bundled: tw.Subject) -> None:
    capture = bundled.capture("a witty movie.")
    assert isinstance(capture, Capture)
    sketch = jacobians(capture, rtol=0.05)
    assert sketch.most_directions == capture.width
    assert not sketch.errors.any()
    torch.testing.assert_close(sketch.norms, jacobians(capture, rtol=None).norms)


def test_sketch_when_the_seed_is_the_same_then_is_the_same_and_leaves_everything_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thalweg.decompose.jacobians.FOLDED_COST", 1.0)
    subject = tiny_subject()
    capture = subject.capture(SENTENCE)
    before = snapshot(subject.model)
    first, second, other = (jacobians(capture, rtol=0.3, seed=seed).norms for seed in (5, 5, 6))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert snapshot(subject.model) == before


def test_memory_when_little_is_allowed_then_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    family = BY_NAME["bart"]
    capture = tw.load(family.build()).capture(family.inputs(1, 2))
    assert isinstance(capture, Capture)
    together = jacobians(capture, rtol=0.5), jacobians(capture, rtol=None, rows=[3])
    monkeypatch.setattr("thalweg.decompose.jacobians.BATCH_ELEMENTS", 1)
    pieces = jacobians(capture, rtol=0.5), jacobians(capture, rtol=None, rows=[3])
    for expected, actual in zip(together, pieces, strict=True):
        torch.testing.assert_close(actual.norms, expected.norms, rtol=1e-4, atol=1e-5)
