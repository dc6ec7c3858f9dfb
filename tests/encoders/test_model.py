"""The transformers model with this attention: like any other model, and identifiable as the theory predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from transformers import AutoModel, AutoModelForSequenceClassification

import thalweg as tw
from tests.families import BY_NAME, SIZES
from tests.tiny import save_folder
from thalweg.capture.attention import Call
from thalweg.encoders import (
    HeadProjections,
    IdentifiableConfig,
    IdentifiableForSequenceClassification,
    IdentifiableModel,
)
from thalweg.errors import InputError

NAMES = ("identifiable_con", "identifiable_add")
each = pytest.mark.parametrize("name", NAMES)


def words(batch: int, length: int) -> torch.Tensor:
    return torch.randint(5, 99, (batch, length), generator=torch.Generator().manual_seed(0))


@each
def test_model_when_saved_then_auto_classes_load_the_same(name: str, tmp_path: Path) -> None:
    model = BY_NAME[name].build()
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(again) is IdentifiableForSequenceClassification
    assert torch.equal(again(words(2, 9)).logits, model(words(2, 9)).logits)
    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder) is IdentifiableModel
    states = model(words(2, 9), output_hidden_states=True).hidden_states
    assert torch.equal(encoder(words(2, 9)).last_hidden_state, states[-1]) and len(states) == 4


@each
def test_model_when_padded_or_eager_then_gives_the_same(name: str) -> None:
    model = BY_NAME[name].build()
    alone = model(words(1, 6)).logits
    padded = torch.cat([words(1, 6), torch.zeros(1, 3, dtype=torch.int64)], 1)
    mask = (padded != 0).long()
    torch.testing.assert_close(model(padded, mask).logits, alone)
    model.set_attn_implementation("eager")
    output = model(padded, mask, output_attentions=True)
    torch.testing.assert_close(output.logits, alone)
    assert len(output.attentions) == 3 and not output.attentions[0][..., 6:].any()


def test_model_when_called_with_labels_then_gradients_are_the_same_with_checkpointing() -> None:
    gradients = []
    for checkpointing in (False, True):
        model = BY_NAME["identifiable_add"].build().train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if isinstance(module, HeadProjections):
                module.dropout = 0.0
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(words(3, 7), labels=torch.tensor([0, 1, 2])).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed)
        assert plain.any()


def test_model_when_inputs_are_too_long_or_missing_then_are_refused() -> None:
    model = BY_NAME["identifiable_add"].build()
    with pytest.raises(InputError, match=r"65 tokens.*positions for 64"):
        model(words(1, 65))
    with pytest.raises(InputError, match="input_ids and inputs_embeds"):
        model()


@pytest.mark.parametrize(
    ("sizes", "fact"),
    [
        ({"value_size": 129}, "at most the width 128, got 129"),
        ({"key_size": -1}, "key_size .*got -1"),
        ({"combine": "both"}, "'con'.*got 'both'"),
        ({"num_attention_heads": 3}, "128 .*3 heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers .*got 0"),
        ({"dropout": 1.0}, r"dropout .*got 1\.0"),
        ({"pad_token_id": 8000}, "pad_token_id .*8000, got 8000"),
    ],
)
def test_config_when_sizes_are_wrong_then_are_refused_with_their_value(sizes: dict[str, Any], fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        IdentifiableConfig(**sizes)


@each
def test_folder_when_loaded_then_every_question_can_be_answered(name: str, tmp_path: Path) -> None:
    subject = tw.load(save_folder(tmp_path, name))
    text = "the old film is very good"
    assert tw.explain(subject, text, "alti").receipt.checks
    assert tw.explain(subject, text, "decompx").receipt.checks
    assert tw.trust(subject, text).heads
    assert tw.mixing(subject, text).figures


def counted(combine: str, tokens: int) -> tuple[tw.Subject, torch.Tensor]:
    """An encoder of width 32 with 4 heads and 2 layers, and a text of this many tokens."""
    sizes = {key: SIZES[key] for key in ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")}
    torch.manual_seed(0)
    config = IdentifiableConfig(**sizes, num_hidden_layers=2, key_size=3, combine=combine)
    model = IdentifiableForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return tw.load(model), words(1, tokens)


@pytest.mark.parametrize(("combine", "certified"), [("con", 9), ("add", 32)])
def test_trust_when_a_text_is_as_long_as_values_are_wide_then_certifies_and_beyond_does_not(
    combine: str, certified: int
) -> None:
    """n ≤ value_size + 1 and full rank: no other distribution has the same output.

    Values as wide as the model lose one dimension, because the output of a LayerNorm has width − 1 of them. In double
    precision: single precision loses the smallest singular values of nearly square matrices.
    """
    subject, ids = counted(combine, certified + 2)
    subject.model.double()
    fits = tw.trust(subject, ids[:, :certified])
    assert fits.counts()["identifiable"] == len(fits.heads) == 8
    for head in range(4):
        ranges = tw.intervals(subject, ids[:, :certified], layer=1, head=head, target=0)
        assert float(ranges.widths.max()) == 0.0
    for beyond in (1, 2):
        longer = tw.trust(subject, ids[:, : certified + beyond])
        assert longer.counts()["identifiable"] == 0
        assert {head.ambiguity for head in longer.heads} == {beyond}
    assert {head.longest for head in longer.heads} == {certified}
    assert float(tw.intervals(subject, ids, layer=1, head=0, target="all").widths.max()) > 1e-3


def test_trust_when_in_single_precision_then_certifies_three_quarters_of_the_width() -> None:
    subject, ids = counted("add", 24)
    assert tw.trust(subject, ids).counts()["identifiable"] == 8
    assert all(float(tw.intervals(subject, ids, layer=1, head=h).widths.max()) == 0.0 for h in range(4))


@pytest.mark.parametrize("tokens", [6, 9, 10, 12, 30])
@pytest.mark.parametrize("combine", ["con", "add"])
def test_layers_when_only_their_output_is_known_then_are_as_ambiguous_added_as_concatenated(
    combine: str, tokens: int
) -> None:
    """H·(n − 1) − width free dimensions in both: adding makes single heads identifiable from their outputs only."""
    heads, width = 4, 32
    subject, ids = counted(combine, tokens)
    for layer in tw.trust(subject, ids).layers:
        assert layer.heads_added == (combine == "add")
        assert layer.ambiguity_together == max(0, heads * (tokens - 1) - width)
        assert layer.ambiguity_apart == (layer.ambiguity_together if combine == "con" else 0)
        assert layer.separable == (combine == "con" or tokens <= 9)


def test_added_heads_when_all_change_together_then_the_logits_stay_though_each_output_changes() -> None:
    """The limit, shown on the model itself: other attention in all heads, the same layer output, the same logits."""
    subject, ids = counted("add", 16)
    capture = subject.capture({"input_ids": ids})
    assert isinstance(capture, tw.Capture)
    block = capture.blocks[0]
    weights = block.weights().double()[:, 0]  # of the first position, [head key]
    values = block.attention.values().double()
    written = (values @ block.projection.double()).flatten(0, 1)
    shown = torch.cat([written, torch.eye(4, dtype=torch.float64).repeat_interleave(16, 0)], 1)  # outputs and row sums
    elsewhere = np.random.default_rng(0).normal(size=4 * 16)
    solution = linprog(elsewhere, A_eq=shown.mT.numpy(), b_eq=(weights.flatten() @ shown).numpy(), bounds=(0, 1))
    other = torch.tensor(solution.x).unflatten(0, (4, 16))
    moved = (other - weights).abs().sum(1) / 2
    assert float(moved.min()) > 0.05  # of each head's attention
    outputs = torch.einsum("hk,hkv->hv", other, values)
    assert float((outputs - block.attention.output[0].double()).norm(dim=1).min()) > 0.1
    calls = []

    def replaced(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
        output, kept = call.run()
        if not calls:
            output = output.clone()
            output[0, 0] = outputs.to(output)
        calls.append(call)
        return output, kept

    with torch.no_grad():
        logits = capture.replay(replaced).result["logits"][0]
    assert capture.logits is not None
    torch.testing.assert_close(logits, capture.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [0.0, 30.0, 1e5])
def test_layer_when_values_have_a_large_bias_then_is_at_least_as_ambiguous_as_its_heads(bias: float) -> None:
    """A bias is the same for all keys, and rows sum to one; at worst rounding hides the rest from both alike."""
    model = BY_NAME["bert"].build()
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if name.endswith("value.bias"):
            parameter.data += bias * torch.randn(parameter.shape, generator=generator)
    for layer in tw.trust(tw.load(model), words(1, 9)).layers:
        assert layer.ambiguity_together >= layer.ambiguity_apart
        assert layer.separable == (layer.ambiguity_together == layer.ambiguity_apart)
        assert bias or layer.separable


def test_layers_when_the_projection_loses_a_direction_then_it_is_named_and_counted_once() -> None:
    model: Any = BY_NAME["bert"].build()
    weight = model.bert.encoder.layer[1].attention.output.dense.weight
    with torch.no_grad():
        u, sizes, v = torch.linalg.svd(weight)
        sizes[-1] = 0
        weight.copy_(u * sizes @ v)
    intact, lacking, _ = tw.trust(tw.load(model), words(1, 12)).layers
    assert intact.separable
    assert lacking.ambiguity_together == lacking.ambiguity_apart + 1
    assert "nearly singular" in lacking.sentence() and not lacking.heads_added
