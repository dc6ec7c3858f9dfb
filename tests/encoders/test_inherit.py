"""Initialisation from a pretrained encoder: exact, at a lower rank, or refused."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, BigBirdConfig, LongformerConfig, MambaConfig

import thalweg as tw
from tests.families import BY_NAME, VOCABULARY
from thalweg.encoders import (
    IdentifiableConfig,
    IdentifiableForSequenceClassification,
    Inherited,
    config_like,
    inherit,
)
from thalweg.errors import InputError

KIN = ("bert", "roberta", "xlm_roberta", "camembert", "ernie", "distilbert", "identifiable_con", "identifiable_add")
IDS = torch.randint(5, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(0))


def heir(source: Any, **sizes: Any) -> tuple[Any, Inherited]:
    model = IdentifiableForSequenceClassification(config_like(source, **sizes)).eval()
    return model, inherit(model, source)


@torch.no_grad()
def states(model: Any) -> torch.Tensor:
    base = getattr(model, model.base_model_prefix)
    return base(IDS, attention_mask=torch.ones_like(IDS)).last_hidden_state


@pytest.mark.parametrize("name", KIN)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"combine": "add"},
        {"key_size": 11, "value_size": 13},
        {"key_size": 11, "combine": "add"},
    ],
    ids=str,
)
def test_inherit_when_sizes_suffice_then_computes_what_the_source_does(name: str, sizes: dict[str, Any]) -> None:
    source = BY_NAME[name].build()
    if name == "identifiable_add" and "combine" not in sizes:
        sizes = {**sizes, "value_size": 32}  # values of this source are as wide as it is
    model, inherited = heir(source, **sizes)
    assert not inherited.approximate
    torch.testing.assert_close(states(model), states(source), rtol=1e-4, atol=1e-5)
    if "classifier" in inherited.exact:
        torch.testing.assert_close(model(IDS).logits, source(IDS).logits, rtol=1e-4, atol=1e-5)


def test_inherit_when_the_head_is_linear_after_tanh_then_is_copied_and_otherwise_not() -> None:
    copied = {name: "classifier" in heir(BY_NAME[name].build())[1].exact for name in KIN}
    assert copied == {
        "bert": True,
        "roberta": True,
        "xlm_roberta": True,
        "ernie": True,
        "identifiable_con": True,
        "identifiable_add": True,
        "camembert": False,  # a masked language model
        "distilbert": False,  # a rectifier, not a tanh
    }


def test_inherit_when_keys_are_smaller_then_is_the_best_approximation_of_that_rank() -> None:
    source: Any = BY_NAME["bert"].build()
    error = {}
    for size in (1, 2, 4, 7, 8):
        model, inherited = heir(source, key_size=size)
        assert ("layers.0.self_attn" in inherited.approximate) == (size < 8)
        error[size] = float((states(model) - states(source)).norm())
        model.requires_grad_(False)
        attention = model.encoder.layers[0].self_attn
        query, key = (
            project.weight.unflatten(0, (4, size)).double() for project in (attention.q_proj, attention.k_proj)
        )
        form = torch.cat([query.mT, attention.q_proj.bias.double().unflatten(0, (4, size))[:, None]], 1) @ key
        own = source.requires_grad_(False).bert.encoder.layer[0].attention.self
        query = torch.cat([own.query.weight.T, own.query.bias[None]]).double().unflatten(1, (4, 8)).transpose(0, 1)
        wanted = query @ own.key.weight.double().unflatten(0, (4, 8))  # [head width+1 width]
        lost = torch.linalg.svdvals(wanted)[:, size:].square().sum(1).sqrt()
        torch.testing.assert_close((wanted - form * (8 / size) ** 0.5).norm(dim=(1, 2)), lost, rtol=1e-4, atol=1e-5)
    assert error[8] < 1e-3 < error[7] and error[7] < error[1]


@pytest.mark.parametrize("combine", ["con", "add"])
def test_inherit_when_values_are_smaller_then_is_the_best_approximation_of_that_rank(combine: str) -> None:
    """Per head for concatenated heads; for added heads jointly, with a shared output projection."""
    source: Any = BY_NAME["bert"].build().requires_grad_(False)
    own = source.bert.encoder.layer[0].attention
    source_values = own.self.value.weight.double().unflatten(0, (4, 8))  # [head size width]
    out = own.output.dense.weight.double().T.unflatten(0, (4, 8))
    wanted = source_values.mT @ out  # [head width width]
    for size in (2, 6):
        model, inherited = heir(source, combine=combine, value_size=size)
        assert "layers.0.self_attn" in inherited.approximate
        attention = model.requires_grad_(False).encoder.layers[0].self_attn
        values = attention.v_proj.weight.double().unflatten(0, (4, size)).mT
        projection = attention.out_proj.weight.double().T
        form = values @ (projection.unflatten(0, (4, size)) if combine == "con" else projection)
        if combine == "con":
            lost = torch.linalg.svdvals(wanted)[:, size:].square().sum(1).sqrt()
            torch.testing.assert_close((wanted - form).norm(dim=(1, 2)), lost, rtol=1e-4, atol=1e-5)
        else:
            lost = torch.linalg.svdvals(wanted.flatten(0, 1))[size:].norm()
            torch.testing.assert_close((wanted - form).norm(), lost, rtol=1e-4, atol=1e-5)


def test_inherit_when_fewer_layers_are_built_then_copies_the_lowest() -> None:
    source: Any = BY_NAME["bert"].build()
    model, _ = heir(source, layers=2)
    expected = source(IDS, output_hidden_states=True).hidden_states
    torch.testing.assert_close(states(model), expected[2], rtol=1e-4, atol=1e-5)


def test_inherit_when_dimensions_are_added_then_they_are_trainable() -> None:
    model, _ = heir(BY_NAME["bert"].build(), key_size=11, value_size=13)
    model(IDS, labels=torch.tensor([0, 1])).loss.backward()
    attention = model.encoder.layers[0].self_attn
    assert attention.q_proj.weight.grad.unflatten(0, (4, 11))[:, 8:].any()
    assert attention.v_proj.weight.grad.unflatten(0, (4, 13))[:, 8:].any()


def test_inherit_when_labels_differ_then_the_classifier_is_fresh() -> None:
    source: Any = BY_NAME["bert"].build()
    model, inherited = heir(source, id2label={0: "bad", 1: "good"})
    assert "classifier" in inherited.fresh and "pooler" in inherited.exact
    assert model.classifier.out_features == 2


def test_inherit_when_sizes_differ_then_copies_the_parts_that_fit() -> None:
    source: Any = BY_NAME["bert"].build()
    config = IdentifiableConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=40
    )
    inherited = inherit(IdentifiableForSequenceClassification(config), source)
    assert {"embeddings.words", "layers.0.self_attn", "layers.0.mlp", "layers.3"} <= set(inherited.fresh)
    assert inherited.approximate == ("embeddings.positions",)


def test_inherit_when_widths_differ_then_is_refused() -> None:
    model = IdentifiableForSequenceClassification(IdentifiableConfig(hidden_size=16))
    with pytest.raises(InputError, match="32, got 16"):
        inherit(model, BY_NAME["bert"].build())


@pytest.mark.parametrize("name", ["albert", "electra", "esm", "layoutlm", "nomic_bert", "gpt2", "modernbert"])
def test_inherit_when_the_architecture_differs_then_is_refused(name: str) -> None:
    source = BY_NAME[name].build()
    with pytest.raises(InputError, match=r"expected (an encoder|one) "):
        heir(source)


@pytest.mark.parametrize(
    "config",
    [
        LongformerConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=50, attention_window=4),
        BigBirdConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=50),
        MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=50),
    ],
    ids=lambda config: config.model_type,
)
def test_inherit_when_attention_depends_on_length_or_is_absent_then_is_refused_untouched(config: Any) -> None:
    source = AutoModel.from_config(config).eval()
    before = source.config.to_dict()
    with pytest.raises(InputError, match=r"expected (an encoder|one) "):
        heir(source)
    assert source.config.to_dict() == before


def test_inherit_when_the_source_computes_more_than_its_parts_then_is_refused() -> None:
    source: Any = BY_NAME["bert"].build()
    norm = source.bert.encoder.layer[1].output.LayerNorm
    norm.register_forward_hook(lambda module, inputs, result: result * 1.01)
    with pytest.raises(InputError, match=r"cannot be copied.*\(allowed"):
        heir(source)


def test_inherit_when_done_then_the_source_is_unchanged(bundled: tw.Subject) -> None:
    before = {name: value.clone() for name, value in bundled.model.state_dict().items()}
    bundled.model.train()
    heir(bundled.model, combine="add", key_size=4)
    assert bundled.model.training
    bundled.model.eval()
    assert all(torch.equal(value, before[name]) for name, value in bundled.model.state_dict().items())


@pytest.mark.parametrize("layers", [0, 5])
def test_config_like_when_the_source_has_fewer_layers_then_is_refused(bundled: tw.Subject, layers: int) -> None:
    with pytest.raises(InputError, match=f"between 1 and 4.*got {layers}"):
        config_like(bundled.model, layers=layers)


def test_bundled_model_when_its_heads_are_added_then_has_the_same_logits_and_wider_values(bundled: tw.Subject) -> None:
    """The bundled model with other attention: the same logits, and values as wide as the model."""
    model, _ = heir(bundled.model, combine="add")
    text = "a gorgeous, witty, seductive movie."
    swapped = tw.load(model, bundled.tokenizer)
    ours, theirs = swapped.capture(text), bundled.capture(text)
    assert isinstance(model.classifier, nn.Linear)
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=1e-4, atol=1e-4)
    assert {block.attention.value.shape[-1] for block in ours.blocks} == {160}
