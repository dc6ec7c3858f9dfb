"""ALTI on real captures: zeroed values, heads that share a row, segments and rows."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from thalweg.capture.record import Capture
from thalweg.decompose.contributions import head_proximity
from thalweg.decompose.parts import decompose

SENTENCE = "a gorgeous, witty, seductive movie."


@pytest.mark.parametrize("method", ["alti", "norm_based"])
def test_contributions_when_values_are_zero_then_every_token_keeps_itself(method: str) -> None:
    family = BY_NAME["llama"]
    model = family.build()
    subject = tw.load(model)
    subject.capture(family.inputs(1, 7))  # learns the wiring while values are not zero
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "v_proj" in name:
                parameter.zero_()
    result = tw.explain(subject, family.inputs(1, 7), method, "all")
    np.testing.assert_allclose(result.scores, np.eye(7), atol=1e-5)


def test_contributions_when_a_head_projects_to_nothing_then_it_has_no_share() -> None:
    family = BY_NAME["gpt2"]
    model = family.build()
    with torch.no_grad():
        model.get_parameter("transformer.h.2.attn.c_proj.weight")[8:16] = 0  # the rows of head 1
    subject = tw.load(model)
    capture = subject.capture(family.inputs(1, 7))
    assert isinstance(capture, Capture)
    by_head, own = head_proximity(decompose(capture.blocks[2]), "l1")
    assert by_head[1].abs().max() < 1e-4 * by_head[0].max()
    assert own.shape == (7,)
    shares_of = [tw.explain(subject, capture, "alti", "all", head=head).scores.sum(1) for head in range(4)]
    assert shares_of[1].max() < 1e-4
    residual = (own / (by_head.sum((0, 2)) + own)).numpy()
    np.testing.assert_allclose(sum(shares_of) + residual, 1, atol=1e-5)


def test_tokens_when_equal_then_give_the_same_to_all_others() -> None:
    family = BY_NAME["bert"]
    model = family.build()
    with torch.no_grad():
        model.get_parameter("bert.embeddings.position_embeddings.weight").zero_()
    result = tw.explain(tw.load(model), [7, 9, 11, 9, 20], "alti", "all", layer=0)
    scores = result.scores
    np.testing.assert_allclose(scores[[0, 2, 4], 1], scores[[0, 2, 4], 3], atol=1e-6)
    np.testing.assert_allclose(scores[1, 1], scores[3, 3], atol=1e-6)


@pytest.mark.parametrize("name", ["bart", "t5", "whisper"])
def test_encoder_decoder_when_explained_then_source_and_prefix_share_each_token(name: str) -> None:
    family = BY_NAME[name]
    result = tw.explain(tw.load(family.build()), captured(family), "alti")
    source, prefix = result.by_segment()[0]
    assert 0 < source < 1
    assert source + prefix == pytest.approx(1, abs=1e-5)


def test_rows_when_only_some_are_explained_then_are_those_of_all(bundled: tw.Subject) -> None:
    capture = bundled.capture(SENTENCE)
    everything = tw.explain(bundled, capture, "alti", "all").scores
    np.testing.assert_allclose(tw.explain(bundled, capture, "alti", [3, 1]).scores, everything[[3, 1]], atol=1e-6)
