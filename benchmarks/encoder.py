"""The encoder that the speed goals are stated for: 6 layers, 384 wide, 12 heads, random weights."""

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

import thalweg as tw


def encoder(positions: int = 4096) -> tw.Subject:
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=6,
        hidden_size=384,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=positions,
    )
    return tw.load(BertModel(config).eval())


def tokens(count: int) -> Tensor:
    return torch.randint(1000, 20000, (1, count), generator=torch.Generator().manual_seed(count))
