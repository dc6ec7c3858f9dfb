"""Intervals and alternatives of real passes."""

import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from tests.identifiability.heads import LONG
from thalweg.identifiability.certificate import certify


@pytest.mark.parametrize(("head", "top"), [(True, None), (0.0, None), (0, 2.5)])
@pytest.mark.usefixtures("as_a_user")
def test_intervals_when_head_or_top_is_no_integer_then_the_error_has_the_value(
    bundled: tw.Subject, head: object, top: object
) -> None:
    with pytest.raises(tw.InputError, match=f"got {top or head}"):
        tw.intervals(bundled, "a witty movie.", 0, head, top=top)  # pyright: ignore[reportArgumentType]


def test_intervals_when_text_is_long_then_contain_the_weights_and_all_programs_are_optimal(bundled: tw.Subject) -> None:
    ranges = tw.intervals(bundled, LONG, 1, 2, target=[0, 5], top=3)
    assert len(ranges.weights) == 6
    assert ranges.targets.tolist() == [0, 0, 0, 5, 5, 5]
    assert (ranges.low <= ranges.weights).all()
    assert (ranges.weights <= ranges.high).all()
    assert ranges.widths.min() > 0.05
    assert ranges.statuses == {"optimal": 12}
    gap = ranges.receipt.checks["duality_gap"]
    assert gap.worst <= gap.allowed
    assert ranges.receipt.figures["programs optimal"] == 12
    json.dumps(ranges.to_dict(), allow_nan=False)


def test_intervals_when_top_is_omitted_then_all_weights_of_the_row_come_largest_first() -> None:
    family = BY_NAME["gpt2"]
    capture = captured(family)
    ranges = tw.intervals(tw.load(family.build()), capture, 0, 0, target=-1)
    assert len(ranges.weights) == len(capture.tokens)
    assert sorted(ranges.sources.tolist()) == list(range(len(capture.tokens)))
    assert ranges.weights.sum() == pytest.approx(1, abs=1e-5)
    assert (np.diff(ranges.weights) <= 0).all()


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"layer": 9, "head": 0}, "layer", "9"),
        ({"layer": 0, "head": 10}, "head", "10"),
        ({"layer": 0, "head": -1}, "head", "-1"),
        ({"layer": 0, "head": 0, "top": 0}, "top", "0"),
        ({"layer": 0, "head": 0, "target": 99}, "target", "99"),
    ],
)
def test_intervals_when_an_option_is_out_of_range_then_the_error_has_its_name_and_value(
    bundled: tw.Subject, options: dict, name: str, value: str
) -> None:
    with pytest.raises(tw.InputError, match=f"{name}.*{value}"):
        tw.intervals(bundled, "a witty movie.", **options)


def test_intervals_when_the_target_is_not_a_query_of_the_block_then_the_error_has_the_positions() -> None:
    family = BY_NAME["t5"]
    capture = captured(family)
    decoder = next(number for number, block in enumerate(capture.blocks) if block.role == "cross")
    with pytest.raises(tw.InputError, match=r"\[0\].*12 to"):
        tw.intervals(tw.load(family.build()), capture, decoder, 0, target=0)
    assert tw.intervals(tw.load(family.build()), capture, decoder, 0, target=-1, top=1).sources[0] < 12


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bloom", "gpt_oss", "vit", "deepseek_v3"])
def test_alternatives_when_a_head_is_ambiguous_then_attention_moves_and_the_model_does_not(name: str) -> None:
    family = BY_NAME[name]
    capture = captured(family)
    subject = tw.load(family.build())
    heads = [head for head in certify(capture).heads if head.ambiguity > 0]
    assert heads, "twelve tokens and small heads leave some freedom"
    for chosen in (heads[0], heads[-1]):
        result = tw.alternatives(subject, capture, chosen.layer, chosen.head)
        other = result.polytope
        assert other is not None
        assert other.total_variation.max() > 0.05
        assert (other.total_variation <= other.at_most + 1e-6).all()
        assert other.head_error < 1e-4
        assert other.moved <= other.allowed < other.control
        assert other.proved
        rows = other.weights.sum(1)
        assert other.weights.min() >= 0
        assert rows.max() <= 1 + 1e-6
        if not capture.blocks[chosen.layer].attention.has_sinks:
            assert rows == pytest.approx(1, abs=1e-6)
        json.dumps(result.to_dict(), allow_nan=False)


def test_alternatives_when_keys_are_wider_than_values_then_include_a_softmax_of_them() -> None:
    family = BY_NAME["deepseek_v3"]
    capture = captured(family)
    attention = capture.blocks[0].attention
    assert attention.key is not None
    assert attention.key.shape[-1] > attention.value.shape[-1]
    heads = [head for head in certify(capture).heads if head.ambiguity_given_keys]
    other = tw.alternatives(tw.load(family.build()), capture, heads[0].layer, heads[0].head).keys
    assert other is not None
    assert other.total_variation.max() > 0.05
    assert other.moved <= other.allowed
    assert other.proved


def test_alternatives_when_logits_are_capped_then_follow_the_capped_softmax() -> None:
    family = BY_NAME["gemma2"]
    capture, subject = captured(family), tw.load(family.build())
    heads = [head for head in certify(capture).heads if head.ambiguity_given_keys]
    assert heads
    assert capture.blocks[0].attention.softcap is not None
    results = [tw.alternatives(subject, capture, head.layer, head.head) for head in heads]
    others = [result.keys for result in results if result.keys is not None]
    assert others
    for other in others:
        assert other.head_error < 1e-5
        assert other.moved <= other.allowed


def test_alternatives_when_half_precision_hides_the_control_then_are_not_proved() -> None:
    family = BY_NAME["bert"]
    model = family.build()
    torch.nn.Module.to(model, torch.bfloat16)
    subject = tw.load(model)
    capture = subject.capture(family.inputs(1, 12))
    for layer in range(3):
        other = tw.alternatives(subject, capture, layer, 0).polytope  # pyright: ignore[reportArgumentType]
        assert other is not None
        assert other.head_error < 1e-3
        assert other.proved == (other.moved <= other.allowed < other.control)


def test_alternatives_when_run_then_hold_the_outputs_of_both_passes(bundled: tw.Subject) -> None:
    capture = bundled.capture_one(LONG)
    result = tw.alternatives(bundled, capture, 1, 2, target=[3, 4])
    other = result.polytope
    assert other is not None
    np.testing.assert_allclose(result.head_output, other.head_output, atol=1e-5)
    values = capture.blocks[1].attention.values()[2].double().numpy()
    np.testing.assert_allclose(other.head_output, other.weights @ values, atol=1e-6)
    assert set(result.output_names) == {"positive", "negative"}
    assert capture.logits is not None
    np.testing.assert_allclose(result.output, sorted(capture.logits.tolist(), reverse=True), atol=1e-4)
    np.testing.assert_allclose(result.output, other.output, atol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_output_when_a_model_has_one_at_each_position_then_is_where_the_prediction_is_read(family: str) -> None:
    capture, subject = captured(BY_NAME[family]), tw.load(BY_NAME[family].build())
    layer = len(capture.blocks) - 1
    result = tw.alternatives(subject, capture, layer, 0)
    assert len(result.output_names) == 5
    assert capture.logits is not None
    np.testing.assert_allclose(result.output, capture.logits[-1].topk(5).values, atol=1e-4)


def test_output_when_a_model_has_no_logits_then_is_a_hidden_state() -> None:
    torch.manual_seed(0)
    config = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32)
    subject = tw.load(BertModel(config).eval())
    result = tw.alternatives(subject, list(range(5, 20)), 0, 0)
    assert result.polytope is not None
    assert result.polytope.compared == "last_hidden_state"
    assert all(name.startswith("dimension ") for name in result.output_names)


def test_trust_when_attention_is_open_then_holds_a_verified_example_of_the_first_head(bundled: tw.Subject) -> None:
    certificate = tw.trust(bundled, LONG)
    (first,) = certificate.most_misleading(1)
    example = certificate.example
    assert example is not None and example.polytope is not None
    assert (example.layer, example.head) == (first.layer, first.head)
    assert example.polytope.moved <= example.polytope.allowed < example.polytope.control
    assert example.polytope.total_variation.mean() == pytest.approx(first.movable, abs=0.1)
    assert tw.trust(bundled, "a witty movie.").example is None


def test_alternatives_when_nothing_is_free_then_give_the_reason(bundled: tw.Subject) -> None:
    result = tw.alternatives(bundled, "a witty movie.", 0, 0)
    assert result.polytope is None
    assert result.keys is None
    assert "attention is determined" in result.missing["polytope"]
