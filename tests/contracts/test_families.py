"""Every family: captured, proved, and left unchanged."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.architectures import captured, measure
from tests.families import AROUND_REGISTRY, BY_NAME, PROVED, REFUSED, THROUGH_REGISTRY, Family
from thalweg.capture.record import Capture

REQUIRED = """bert roberta distilbert albert electra modernbert xlm_roberta nomic_bert eurobert gpt2 gpt_neox
gptj opt llama mistral mixtral qwen2 qwen3 qwen3_moe gemma gemma2 gemma3_text phi phi3 olmo2 cohere stablelm
granite glm4 smollm3 starcoder2 gpt_oss deepseek_v3 t5 bart marian mbart pegasus vit deit dinov2
clip_text_model whisper deberta_v2 mpnet bloom mpt falcon""".split()

each = pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)
TEXT = [f for f in PROVED if f.task not in ("vision", "speech")]


def first(outputs: Any) -> Tensor:
    return outputs["logits"] if "logits" in outputs else outputs[0]


def test_families_when_counted_then_include_every_required_one() -> None:
    assert set(REQUIRED) <= {family.name for family in PROVED}
    assert len(PROVED) >= 70


@each
def test_capture_when_taken_then_every_block_is_proved(family: Family) -> None:
    capture = captured(family)
    roles = [block.role for block in capture.blocks]
    assert {role: roles.count(role) for role in roles} == dict(family.attentions)
    for block in capture.blocks:
        assert block.parity < 2e-6
        assert block.sum_error < 2e-6


@each
def test_wiring_when_discovered_then_matches_the_traits_of_the_family(family: Family) -> None:
    capture = captured(family)
    traits = family.traits
    for block in capture.blocks:
        attention = block.attention
        assert (block.norm is not None) == ("post_norm" in traits)
        assert block.parallel == ("parallel" in traits)
        assert (block.branch_norm is not None) == ("branch_norm" in traits)
        assert (block.scale is not None) == ("layer_scale" in traits)
        assert (block.multiplier != 1) == ("residual_multiplier" in traits)
        assert attention.has_sinks == ("sinks" in traits)
        assert (attention.softcap is not None) == ("soft_cap" in traits)
        if family in THROUGH_REGISTRY:
            assert (attention.value.shape[0] < attention.heads) == ("gqa" in traits)


@each
def test_model_when_captured_then_answers_and_looks_as_before(family: Family) -> None:
    model, inputs = family.build(), family.inputs(2, 12)
    with torch.no_grad():
        before = first(model(**inputs))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    config = copy.deepcopy(model.config.to_dict())
    implementation = model.config._attn_implementation
    random, gradients = torch.get_rng_state(), torch.is_grad_enabled()
    tw.load(model).capture(inputs)
    assert torch.equal(random, torch.get_rng_state())
    assert gradients == torch.is_grad_enabled()
    assert config == model.config.to_dict()
    assert implementation == model.config._attn_implementation
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.training
    with torch.no_grad():
        assert torch.equal(first(model(**inputs)), before)


@pytest.mark.parametrize("family", THROUGH_REGISTRY, ids=lambda family: family.name)
def test_weights_when_recomputed_then_equal_the_models_own(family: Family) -> None:
    model, inputs = family.build(), family.inputs(1, 12)
    capture = tw.load(model).capture(inputs)
    assert isinstance(capture, Capture)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    for role, name in {
        "self": "attentions",
        "encoder": "encoder_attentions",
        "decoder": "decoder_attentions",
        "cross": "cross_attentions",
    }.items():
        blocks = [block for block in capture.blocks if block.role == role]
        own = [maps for maps in outputs.get(name) or () if maps is not None] if blocks else []
        assert len(own) == len(blocks)
        for block, expected in zip(blocks, own, strict=True):
            torch.testing.assert_close(block.weights(), expected[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("family", AROUND_REGISTRY, ids=lambda family: family.name)
def test_weights_when_the_model_bypasses_the_registry_then_equal_its_own(
    family: Family,
) -> None:
    model, inputs = family.build(), family.inputs(1, 12)
    capture = tw.load(model).capture(inputs)
    assert isinstance(capture, Capture)
    model.config._attn_implementation = "eager"  # Falcon drops its mask when asked under sdpa
    with torch.no_grad():
        own = model(**inputs, output_attentions=True).attentions
    assert len(own) == len(capture.blocks)
    for block, expected in zip(capture.blocks, own, strict=True):
        torch.testing.assert_close(block.weights(), expected[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", TEXT, ids=lambda family: family.name)
def test_example_when_padded_in_a_batch_then_has_the_numbers_it_has_alone(family: Family, side: str) -> None:
    subject = tw.load(family.build())
    long, short = family.inputs(1, 11), family.inputs(1, 7)
    alone = [subject.capture(long), subject.capture(short)]
    pad = torch.zeros(1, 4, dtype=torch.long)
    padded = {**short}
    for name in ("input_ids", "attention_mask"):
        parts = [pad, short[name]] if side == "left" else [short[name], pad]
        padded[name] = torch.cat(parts, 1)
    if "decoder_input_ids" in long:
        prefix = short["decoder_input_ids"]
        long = {**long, "decoder_input_ids": prefix}
        alone[0] = subject.capture(long)
    together = subject.capture({name: torch.cat([long[name], padded[name]]) for name in long})
    assert isinstance(together, list)
    for capture, expected in zip(together, alone, strict=True):
        assert isinstance(expected, Capture)
        assert len(capture.tokens) == len(expected.tokens)
        for block, wanted in zip(capture.blocks, expected.blocks, strict=True):
            torch.testing.assert_close(block.output, wanted.output, atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(block.weights(), wanted.weights(), atol=2e-5, rtol=1e-4)
        if capture.logits is not None:
            torch.testing.assert_close(capture.logits, expected.logits, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("family", THROUGH_REGISTRY, ids=lambda family: family.name)
def test_eager_and_sdpa_when_captured_then_agree(family: Family) -> None:
    captures = []
    for implementation in ("eager", "sdpa"):
        model = family.build()
        try:
            model.set_attn_implementation(implementation)
        except ValueError:
            assert implementation == "sdpa"
            assert {
                "soft_cap",
                "sinks",
            } & family.traits  # the only reason not to have a fused kernel
            return
        capture = tw.load(model).capture(family.inputs(1, 12))
        assert isinstance(capture, Capture)
        captures.append(capture)
    for eager, fused in zip(captures[0].blocks, captures[1].blocks, strict=True):
        torch.testing.assert_close(eager.weights(), fused.weights(), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(eager.output, fused.output, atol=1e-4, rtol=1e-4)


@each
def test_bfloat16_model_when_captured_then_proved_within_its_own_tolerance(family: Family) -> None:
    model = family.build().bfloat16()
    inputs = family.inputs(1, 12)
    capture = tw.load(model).capture(inputs)
    assert isinstance(capture, Capture)
    for block in capture.blocks:
        assert block.parity < 1.5 * torch.finfo(torch.bfloat16).eps
        assert block.sum_error < 0.7 * torch.finfo(torch.bfloat16).eps
        assert block.weights().dtype == torch.float32


@pytest.mark.parametrize("family", REFUSED, ids=lambda family: family.name)
def test_family_when_it_cannot_be_proved_then_is_refused_and_left_alone(family: Family) -> None:
    model, inputs = family.build(), family.inputs(1, 12)
    implementation = model.config._attn_implementation
    with pytest.raises(tw.ProofError if family.name != "mamba" else tw.ModelError) as caught:
        tw.load(model).capture(inputs)
    assert "attention" in str(caught.value) or "chain of blocks" in str(caught.value)
    assert model.config._attn_implementation == implementation
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_table_of_architectures_when_compared_then_names_what_is_tested() -> None:
    table = (Path(__file__).parents[2] / "docs" / "architectures.md").read_text()
    for family in PROVED[::8]:
        row = measure(family)
        assert f"| {row.name} | {row.blocks} | {row.shape} |" in table
    assert all(f"| {family.name} |" in table for family in PROVED)
    assert all(f"| {family.name} |" in table for family in REFUSED)
    assert len(BY_NAME) == len(PROVED) + len(REFUSED)
