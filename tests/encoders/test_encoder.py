"""Encoder layers and stacks: the same as torch's own, with copies that start from the same weights."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.encoders.test_attention import BATCH, HEADS, TOKENS, WIDTH, numbers, randomised
from thalweg.encoders import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from thalweg.encoders.encoder import PostNorm
from thalweg.errors import InputError


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_when_sizes_are_those_of_torch_then_computes_the_same(activation: Any) -> None:
    options: dict[str, Any] = {"dim_feedforward": 20, "activation": activation, "batch_first": True}
    theirs = randomised(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, **options), 2, enable_nested_tensor=False)
    )
    ours = TransformerEncoder(TransformerEncoderLayer(WIDTH, HEADS, **options), 2).eval()
    for own, other in zip(ours.layers, theirs.layers, strict=True):
        assert isinstance(own, TransformerEncoderLayer) and isinstance(other, nn.TransformerEncoderLayer)
        rest = {name: value for name, value in other.state_dict().items() if not name.startswith("self_attn")}
        own.load_state_dict(rest, strict=False)
        own.self_attn = MultiheadAttention.from_torch(other.self_attn)
    x = numbers(BATCH, TOKENS, WIDTH)
    padding = torch.arange(TOKENS) >= torch.tensor([[TOKENS], [4], [2]])
    real = ~padding
    expected = theirs(x, src_key_padding_mask=padding)
    torch.testing.assert_close(ours(x, src_key_padding_mask=padding)[real], expected[real])
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    torch.testing.assert_close(ours(x, mask=causal, is_causal=True), theirs(x, mask=causal, is_causal=True))


def test_encoder_when_built_then_its_layers_are_equal_but_separate_copies() -> None:
    layer = TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=8, key_size=2, combine="add")
    first, second = TransformerEncoder(layer, 2).layers
    assert isinstance(first, TransformerEncoderLayer) and isinstance(second, TransformerEncoderLayer)
    assert torch.equal(first.linear1.weight, second.linear1.weight)
    assert first.linear1.weight is not second.linear1.weight


@pytest.mark.usefixtures("as_a_user")
def test_encoder_when_layers_or_activation_are_wrong_then_are_refused_with_their_value() -> None:
    with pytest.raises(InputError, match=r"num_layers .*at least 1, got 0"):
        TransformerEncoder(TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=8), 0)
    with pytest.raises(InputError, match="activation 'step'"):
        PostNorm(WIDTH, 8, 0.0, "step", 1e-5)
