"""Folded Jacobians against the whole pass."""

import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME
from thalweg.capture.record import Capture
from thalweg.decompose.folded import fold
from thalweg.decompose.jacobians import _Passes, jacobians


@pytest.mark.parametrize(
    "name", ["bert", "albert", "llama", "gemma2", "mistral", "phi", "gpt_neox", "dinov2", "stablelm", "modernbert"]
)
def test_folded_model_when_compared_with_the_whole_pass_then_is_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = BY_NAME[name]
    capture = tw.load(family.build()).capture(family.inputs(1, 8))
    assert isinstance(capture, Capture)
    passes = _Passes(capture, "embeddings", len(capture.blocks))
    assert fold(capture, len(capture.blocks), passes.zero, passes.batch, passes.push) is not None
    folded = jacobians(capture, rtol=None).norms
    monkeypatch.setattr("thalweg.decompose.folded.MAX_FOLDED_ELEMENTS", 0)
    torch.testing.assert_close(jacobians(capture, rtol=None).norms, folded, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "tokens"), [("bart", 9), ("bert", 7)])
def test_fold_when_the_model_has_two_sequences_or_few_tokens_then_is_not_done(name: str, tokens: int) -> None:
    family = BY_NAME[name]
    capture = tw.load(family.build()).capture(family.inputs(1, tokens))
    assert isinstance(capture, Capture)
    passes = _Passes(capture, "embeddings", len(capture.blocks))
    assert fold(capture, len(capture.blocks), passes.zero, passes.batch, passes.push) is None
