"""Hidden token attribution: closed forms, invariants, finite differences, and what the sketch promises."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from tests.tiny import SENTENCE, snapshot, tiny_subject
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.discover.states import StateTaps
from thalweg.capture.missing import Missing
from thalweg.capture.observe import Tap
from thalweg.capture.record import Attention, Block, Capture
from thalweg.capture.run import replay
from thalweg.decompose.folded import fold
from thalweg.decompose.jacobians import _Passes, jacobians
from thalweg.decompose.sketch import CONFIDENCE, NEGLIGIBLE, sketched_norms
from thalweg.tokens import anonymous


class Frozen(nn.Module):
    """y_i = x_i + Σ_h Σ_j α^h_ij x_j W_h in every layer, with attention α that depends on nothing."""

    def __init__(self, weights: Tensor, maps: Tensor) -> None:
        super().__init__()
        self.weights, self.maps = weights, maps  # [layer head query key], [layer head width width]
        self.layers = nn.ModuleList(nn.Identity() for _ in range(len(weights) + 1))

    def forward(self, states: Tensor) -> Tensor:
        for layer, weights, maps in zip(self.layers, self.weights, self.maps, strict=False):
            states = layer(states)
            states = states + torch.einsum("hij,bjd,hde->bie", weights, states, maps)
        return self.layers[-1](states)


def frozen(weights: Tensor, maps: Tensor, entry_bypass: str = "") -> Capture:
    """A capture of that model, made by hand."""
    model, states = Frozen(weights, maps), torch.randn(weights.shape[-1], maps.shape[-1])
    layers, heads, count, _ = weights.shape
    everything = slice(0, count)
    kept = Attention(torch.zeros(heads, count, 1), torch.zeros(count, heads, 1), kept=weights[0])
    block = Block(
        name="by hand", role="self", attention=kept, projection=torch.zeros(heads, 1, maps.shape[-1]), bias=None,
        branch_norm=None, scale=None, multiplier=1.0, input=states, summed=states, output=states, norm=None,
        parallel=False, queries=everything, keys=everything, parity=0.0, sum_error=0.0, tolerance=1e-4,
    )  # fmt: skip
    places = tuple(Tap(f"layers.{number}", "in", 0, 0) for number in range(layers + 1))
    anatomy = Anatomy((), (), None, True, Missing("made by hand"), StateTaps(places[:1], places[1:], "", entry_bypass))

    def again(handle: Any, copies: int = 1) -> Any:
        return replay(model, {"states": states.repeat(copies, 1, 1)}, anatomy, handle)

    return Capture(anonymous(count), tuple(replace(block) for _ in range(layers)), None, (), {}, again)


def shares(norms: Tensor) -> Tensor:
    return norms / norms.sum(-1, keepdim=True)


def test_jacobians_when_attention_is_frozen_and_linear_then_have_their_closed_form() -> None:
    torch.manual_seed(0)
    weights, maps = torch.rand(2, 2, 4, 4).softmax(-1), torch.randn(2, 2, 6, 6)
    heads = torch.einsum("lhij,lhde->liejd", weights, maps)  # Σ_h α_ij W_hᵀ as [layer target width source width]
    steps = torch.eye(24) + heads.reshape(2, 24, 24)

    def closed(whole: Tensor) -> Tensor:
        return whole.reshape(4, 6, 4, 6).square().sum((1, 3)).sqrt()

    capture = frozen(weights, maps)
    expected = torch.stack([closed(torch.eye(24)), closed(steps[0]), closed(steps[1] @ steps[0])])
    torch.testing.assert_close(jacobians(capture, rtol=None).norms, expected)
    torch.testing.assert_close(jacobians(capture, rtol=None, rows=[0, 2]).norms[0], expected[-1, [0, 2]])
    torch.testing.assert_close(jacobians(capture, rtol=None, start="layer").norms[2], closed(steps[1]))


def test_shares_when_each_token_attends_to_itself_only_then_are_the_identity() -> None:
    capture = frozen(torch.eye(3).expand(2, 1, 3, 3), torch.randn(2, 1, 5, 5))
    assert torch.equal(shares(jacobians(capture).norms), torch.eye(3).expand(3, 3, 3))


def test_model_when_something_goes_round_the_embedding_output_then_is_refused() -> None:
    capture = frozen(torch.eye(3)[None, None], torch.randn(1, 1, 5, 5), "the state depends on the text by another way")
    with pytest.raises(tw.ModelError, match="by another way, so a derivative would miss a part"):
        jacobians(capture)


def test_model_when_a_layer_reads_the_embeddings_again_then_is_refused() -> None:
    family = BY_NAME["granite"]  # the embeddings are seen by its rotary module before they are a state
    model: Any = family.build()
    kept: list[Tensor] = []
    model.model.rotary_emb.register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    model.model.layers[1].mlp.register_forward_hook(lambda _, __, output: output + kept[-1])
    capture = tw.load(model).capture(family.inputs(1, 5))
    assert isinstance(capture, Capture)
    with pytest.raises(tw.ModelError, match=r"does not pass the input of model\.layers\.0"):
        jacobians(capture)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "bart"])
def test_layer_zero_when_measured_then_is_the_identity(name: str) -> None:
    found = jacobians(captured(BY_NAME[name]), rtol=None).norms[0]
    torch.testing.assert_close(found, captured(BY_NAME[name]).width ** 0.5 * torch.eye(len(found)))


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "bloom", "mixtral"])
def test_jacobians_when_the_model_is_causal_then_are_lower_triangular(name: str) -> None:
    found = jacobians(captured(BY_NAME[name]), rtol=None).norms
    assert found.triu(1).abs().max() == 0
    assert found.diagonal(dim1=1, dim2=2).min() > 0


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


def matrices(kind: str, generator: torch.Generator, owners: int = 4, others: int = 5, width: int = 48) -> Tensor:
    """J [owner other result width] of high rank, of low rank, near the identity, or of very different sizes."""
    drawn = partial(torch.randn, generator=generator, dtype=torch.float64)
    if kind == "low rank":
        return drawn(owners, others, width, 3) @ drawn(owners, others, 3, width)
    if kind == "decaying":
        return drawn(owners, others, width, width) / torch.arange(1, width + 1)
    if kind == "identity":
        return torch.eye(width) + 0.1 * drawn(owners, others, width, width)
    return drawn(owners, others, width, width) * 10 ** drawn(owners, others, 1, 1)


@pytest.mark.parametrize("rows_are_owners", [True, False])
@pytest.mark.parametrize("kind", ["low rank", "decaying", "identity", "of all sizes"])
def test_error_bars_when_counted_over_many_seeds_then_cover_as_often_as_they_say(
    kind: str, rows_are_owners: bool
) -> None:
    whole = matrices(kind, torch.Generator().manual_seed(1))
    axis = int(rows_are_owners)
    norms = whole.square().sum((-2, -1)).sqrt()
    exact = norms / norms.sum(axis, keepdim=True)
    floor = NEGLIGIBLE / exact.shape[axis]
    covered = []

    def products(owners: Tensor, directions: Tensor) -> Tensor:
        return torch.einsum("cord,cd->cor", whole[owners], directions)

    like = torch.zeros(1, whole.shape[-1], dtype=torch.float64)
    for seed in range(150):
        found = sketched_norms(
            products,
            len(whole),
            64,
            like,
            lambda *_: None,
            rtol=0.1,
            seed=seed,
            rows_are_owners=rows_are_owners,
            worth=1.0,
        )
        assert found is not None
        made = found.norms / found.norms.sum(axis, keepdim=True)
        away = (made - exact).abs() / exact.clamp_min(floor)
        assert found.errors.max() <= 0.1
        assert found.used.max() <= whole.shape[-1]
        covered.append((away <= found.errors + 1e-12).double())
    rates = torch.stack(covered).mean(0)
    assert rates.mean() >= CONFIDENCE
    assert rates.min() >= CONFIDENCE - 0.05  # the worst of twenty entries, each counted 150 times


def test_sketch_when_run_on_a_model_then_keeps_its_relative_error(shipped: tw.Subject) -> None:
    capture = shipped.capture("a witty movie.")
    exact = shares(jacobians(capture, rtol=None).norms)
    for rtol, rows in ((0.2, None), (0.05, None), (0.05, [0, 2, 4])):
        found = jacobians(capture, rtol=rtol, rows=rows, seed=3)
        assert found.errors.max() <= rtol
        right = exact if rows is None else exact[-1:, rows]
        away = (shares(found.norms) - right).abs() / right.clamp_min(NEGLIGIBLE / len(capture.tokens))
        assert (away <= rtol).double().mean() >= CONFIDENCE
        assert away.max() <= 1.5 * rtol


@pytest.mark.parametrize(
    "name", ["bert", "albert", "llama", "gemma2", "mistral", "phi", "gpt_neox", "dinov2", "stablelm", "modernbert"]
)
def test_folding_when_it_is_done_then_gives_what_the_whole_pass_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = BY_NAME[name]
    capture = tw.load(family.build()).capture(family.inputs(1, 8))
    assert isinstance(capture, Capture)
    passes = _Passes(capture, "embeddings", len(capture.blocks))
    assert fold(capture, len(capture.blocks), passes.zero, passes.batch, passes.push) is not None
    whole = jacobians(capture, rtol=None).norms
    monkeypatch.setattr("thalweg.decompose.folded.FOLDED", 0)
    torch.testing.assert_close(jacobians(capture, rtol=None).norms, whole, rtol=1e-4, atol=1e-5)


def test_sketch_when_all_directions_are_used_then_is_exact() -> None:
    capture = captured(BY_NAME["bert"])
    found = jacobians(capture, rtol=1e-6)
    assert found.most_directions == capture.width
    torch.testing.assert_close(found.norms, jacobians(capture, rtol=None).norms, rtol=1e-4, atol=1e-5)


def test_sketch_when_it_would_need_most_directions_then_all_are_used_instead(shipped: tw.Subject) -> None:
    capture = shipped.capture("a witty movie.")
    assert isinstance(capture, Capture)
    found = jacobians(capture, rtol=0.05)
    assert found.most_directions == capture.width
    assert not found.errors.any()
    torch.testing.assert_close(found.norms, jacobians(capture, rtol=None).norms)


def test_sketch_when_the_seed_is_the_same_then_is_the_same_and_leaves_everything_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thalweg.decompose.jacobians.FOLDING", 1.0)
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
    whole = jacobians(capture, rtol=0.5), jacobians(capture, rtol=None, rows=[3])
    monkeypatch.setattr("thalweg.decompose.jacobians.ELEMENTS", 1)
    pieces = jacobians(capture, rtol=0.5), jacobians(capture, rtol=None, rows=[3])
    for one, other in zip(whole, pieces, strict=True):
        torch.testing.assert_close(one.norms, other.norms, rtol=1e-4, atol=1e-5)


def test_method_when_all_positions_are_asked_for_then_has_a_map_for_every_layer(shipped: tw.Subject) -> None:
    text = "a witty movie."
    result = tw.explain(shipped, text, "hidden_token_attribution", "all")
    assert result.per_layer is not None
    assert len(result.per_layer) == 4
    np.testing.assert_allclose(result.per_layer[-1], result.scores, atol=1e-6)
    np.testing.assert_allclose(result.per_layer.sum(-1), 1, atol=1e-5)
    assert result.receipt.figures["largest relative error bar"] <= 0.05
    assert result.errors is not None
    assert result.errors.shape == result.scores.shape
    one = tw.explain(shipped, text, "hidden_token_attribution", 1, rtol=None)
    np.testing.assert_allclose(one.scores[0], result.scores[1], rtol=0.05)
    own = tw.mixing(shipped, text, methods=["hidden_token_attribution"]).own["hidden_token_attribution"]
    assert (np.diff(own) < 0).all()  # the deeper, the less a token keeps of itself


def test_method_when_the_model_is_in_half_precision_then_says_so() -> None:
    family = BY_NAME["bert"]
    model: Any = family.build()
    subject = tw.load(model.to(torch.bfloat16))
    result = tw.explain(subject, family.inputs(1, 5), "hidden_token_attribution", 0, rtol=0.2)
    assert any("bfloat16" in sentence for sentence in result.receipt.assumed)
    full = tw.explain(tw.load(family.build()), family.inputs(1, 5), "hidden_token_attribution", 0, rtol=None)
    np.testing.assert_allclose(result.scores, full.scores, rtol=0.3)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"rtol": 0.0}, "rtol was given 0.0; expected"),
        ({"rtol": 2.0}, "rtol was given 2.0; expected"),
        ({"norm": "spectral"}, "cannot be sketched"),
        ({"norm": "nuclear"}, "frobenius or spectral"),
        ({"layer": 9}, "layer 9"),
    ],
)
def test_parameter_when_wrong_then_is_refused_in_a_sentence(params: dict, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        tw.explain(tiny_subject(), SENTENCE, "hidden_token_attribution", 0, **params)
