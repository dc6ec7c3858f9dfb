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
