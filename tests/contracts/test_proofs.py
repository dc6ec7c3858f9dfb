"""The proofs can fail: a wiring or a record that is off by a little is refused, in full and in half precision."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedModel,
)

import thalweg as tw
from tests.families import BY_NAME, randomise
from tests.tiny import wordpiece
from thalweg.capture import run
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.prove import block as prove
from thalweg.capture.record import Attention, Capture
from thalweg.decompose.attention_graph import block_weights

PRECISIONS = [torch.float32, torch.bfloat16]
each_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=["float32", "bfloat16"])


def learnt(name: str, dtype: torch.dtype) -> tuple[PreTrainedModel, dict, Anatomy]:
    family = BY_NAME[name]
    model = family.build().bfloat16() if dtype == torch.bfloat16 else family.build()
    return model, family.inputs(1, 12), run.learn(model, family.inputs(1, 9))


def forged(anatomy: Anatomy, **changes: Any) -> run.Anatomy:
    blocks = [replace(wiring, **{k: v(wiring) for k, v in changes.items()}) for wiring in anatomy.blocks]
    return replace(anatomy, blocks=tuple(blocks))


def other_norm(wiring: BlockWiring) -> Any:
    site = wiring.norm or wiring.branch_norm
    assert site is not None
    return replace(site, offset=not site.offset)


@each_precision
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {"multiplier": lambda w: 0.9}),
        ("llama", {"multiplier": lambda w: -1.0}),
        ("granite", {"multiplier": lambda w: 1.1 * w.multiplier}),
        ("gpt2", {"residual": lambda w: w.total}),
        ("bert", {"norm": other_norm}),
        ("bert", {"norm": lambda w: replace(w.norm, centred=False)}),
        ("olmo2", {"branch_norm": other_norm}),
        ("olmo2", {"branch_norm": lambda w: None}),
        ("dinov2", {"scale": lambda w: None}),
        ("phi", {"parallel": lambda w: None}),
    ],
    ids=lambda one: one if isinstance(one, str) else "-".join(one),
)
def test_wiring_when_forged_then_is_refused(name: str, changes: dict, dtype: torch.dtype) -> None:
    model, inputs, anatomy = learnt(name, dtype)
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    run.capture_blocks(model, inputs, anatomy, None)
    with pytest.raises(tw.ProofError, match="cannot be verified"):
        run.capture_blocks(model, inputs, forged(anatomy, **changes), None)


@each_precision
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {"scaling": lambda a: 0.9 * a.scaling}),
        ("llama", {"causal": lambda a: False}),
        ("mistral", {"mask": lambda a: None}),
        ("gemma2", {"softcap": lambda a: None}),
        ("gpt_oss", {"sinks": lambda a: None}),
        ("t5", {"bias": lambda a: None}),
        ("bert", {"value": lambda a: 1.05 * a.value}),
        ("bert", {"value": lambda a: torch.cat([1.2 * a.value[:1], a.value[1:]])}),  # one head only
    ],
    ids=lambda one: one if isinstance(one, str) else "-".join(one),
)
def test_attention_when_misread_then_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: dict, dtype: torch.dtype
) -> None:
    model, inputs, anatomy = learnt(name, dtype)
    honest = prove._attention

    def misread(*given: Any) -> Attention:
        attention = honest(*given)
        return replace(attention, **{k: v(attention) for k, v in changes.items()})

    monkeypatch.setattr(prove, "_attention", misread)
    with pytest.raises(tw.ProofError, match="weights times values"):
        run.capture_blocks(model, inputs, anatomy, None)


def test_projection_when_its_bias_is_forgotten_then_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, anatomy = learnt("bert", torch.float32)
    honest = prove.read_affine
    monkeypatch.setattr(prove, "read_affine", lambda *given: (honest(*given)[0], None))
    with pytest.raises(tw.ProofError, match="input plus the attention branch"):
        run.capture_blocks(model, inputs, anatomy, None)


def test_weights_when_a_row_is_not_a_number_then_are_refused() -> None:
    capture = tw.load(BY_NAME["bert"].build()).capture(BY_NAME["bert"].inputs(1, 8))
    assert isinstance(capture, Capture)
    block = capture.blocks[0]
    query = block.attention.query
    assert query is not None
    spoilt = query.clone()
    spoilt[0, 3] = torch.nan
    with pytest.raises(tw.ProofError):
        block_weights(replace(block, attention=replace(block.attention, query=spoilt)))


def test_classifier_when_its_padding_id_is_not_zero_then_answers_in_a_batch_as_alone() -> None:
    config = LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=3,
    )  # fmt: skip
    model = LlamaForSequenceClassification(config).eval()
    randomise(model, torch.Generator().manual_seed(0))
    subject = tw.load(model)
    rows = [[7, 8, 9, 10, 11, 12], [20, 21, 22]]
    together = subject.capture(rows)
    assert isinstance(together, list)
    for row, capture in zip(rows, together, strict=True):
        alone = subject.capture(row)
        assert isinstance(alone, Capture)
        torch.testing.assert_close(capture.logits, alone.logits, atol=1e-5, rtol=1e-4)
        assert capture.readout == (len(row) - 1,)


def test_token_classifier_when_a_position_is_explained_then_no_token_is_named_as_its_label() -> None:
    config = BertConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        id2label={0: "O", 1: "PER", 2: "LOC"},
    )  # fmt: skip
    model = BertForTokenClassification(config).eval()
    subject = tw.load(model, wordpiece())
    assert subject.task == "token_classification"
    result = tw.explain(subject, "the cat", target=1)
    assert result.prediction is None
    with pytest.raises(tw.InputError, match="no single prediction"):
        tw.explain(subject, "the cat", target="prediction")


def test_decoder_when_padded_then_its_padding_is_cut_away() -> None:
    family = BY_NAME["bart"]
    subject = tw.load(family.build())
    inputs = family.inputs(1, 6)
    alone = subject.capture({**inputs, "decoder_input_ids": inputs["decoder_input_ids"][:, :4]})
    padded = torch.cat([torch.zeros(1, 2, dtype=torch.long), inputs["decoder_input_ids"][:, :4]], 1)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]])
    capture = subject.capture({**inputs, "decoder_input_ids": padded, "decoder_attention_mask": mask})
    assert isinstance(alone, Capture)
    assert isinstance(capture, Capture)
    assert len(capture.tokens) == len(alone.tokens)
    assert capture.readout == alone.readout
    torch.testing.assert_close(capture.logits, alone.logits, atol=1e-5, rtol=1e-4)


def test_values_when_they_are_made_of_other_tokens_then_are_refused() -> None:
    model = BY_NAME["bert"].build()
    for layer in range(3):
        value = model.get_submodule(f"bert.encoder.layer.{layer}.attention.self.value")
        value.register_forward_hook(lambda _, __, output: output.roll(1, dims=1))
    with pytest.raises(tw.ProofError, match="mixed by something that is not attention"):
        tw.load(model).capture(BY_NAME["bert"].inputs(1, 8))


def test_capture_when_an_mlp_does_nothing_then_still_works() -> None:
    model = BY_NAME["bert"].build()
    with torch.no_grad():
        model.get_parameter("bert.encoder.layer.1.intermediate.dense.weight").zero_()
        model.get_parameter("bert.encoder.layer.1.intermediate.dense.bias").zero_()
    result = tw.explain(tw.load(model), BY_NAME["bert"].inputs(1, 8), "raw_attention")
    assert result.row_sum_error < 1e-5
