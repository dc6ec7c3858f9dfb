"""Proofs can fail: a slightly wrong wiring or record of any family is refused, in full and in half precision."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

import thalweg as tw
from tests.families import BY_NAME
from thalweg.capture import run
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.discover.block import BlockWiring
from thalweg.capture.prove import block as prove
from thalweg.capture.record import Attention

PRECISIONS = [torch.float32, torch.bfloat16]
each_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=["float32", "bfloat16"])


def learnt(name: str, dtype: torch.dtype) -> tuple[PreTrainedModel, dict, Anatomy]:
    family = BY_NAME[name]
    model = family.build().bfloat16() if dtype == torch.bfloat16 else family.build()
    return model, family.inputs(1, 12), run.learn(model, family.inputs(1, 9))


def forged(anatomy: Anatomy, **changes: Any) -> Anatomy:
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
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
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
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_attention_when_misread_then_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: dict, dtype: torch.dtype
) -> None:
    model, inputs, anatomy = learnt(name, dtype)
    honest = prove._attention

    def misread(*arguments: Any) -> Attention:
        attention = honest(*arguments)
        return replace(attention, **{k: v(attention) for k, v in changes.items()})

    monkeypatch.setattr(prove, "_attention", misread)
    with pytest.raises(tw.ProofError, match="weights times values"):
        run.capture_blocks(model, inputs, anatomy, None)


def test_projection_when_its_bias_is_forgotten_then_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, anatomy = learnt("bert", torch.float32)
    honest = prove.read_affine
    monkeypatch.setattr(prove, "read_affine", lambda *arguments: (honest(*arguments)[0], None))
    with pytest.raises(tw.ProofError, match="input plus the attention branch"):
        run.capture_blocks(model, inputs, anatomy, None)
