"""Norm-based analysis against the norms of attention's vectors."""

import numpy as np
import torch

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME


def test_norm_based_when_only_attention_counts_then_is_the_size_of_what_it_brings() -> None:
    capture = captured(BY_NAME["bert"])
    result = tw.explain(tw.load(BY_NAME["bert"].build()), capture, "norm_based", "all", include="attention", layer=0)
    block = capture.blocks[0]
    vectors = torch.einsum("hij,hjv,hvd->ijd", block.weights(), block.attention.values(), block.projection)
    expected = vectors.norm(dim=-1)
    np.testing.assert_allclose(result.scores, (expected / expected.sum(-1, keepdim=True)).numpy(), atol=1e-5)
    assert 0 < result.receipt.figures["mean mixing ratio"] < 1
