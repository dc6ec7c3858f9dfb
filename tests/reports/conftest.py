"""A classifier that pools: its prediction is read from the mean over all positions."""

import pytest
import torch
from transformers import ModernBertConfig, ModernBertForSequenceClassification

import thalweg as tw
from tests.families import BOS, EOS, PAD, VOCABULARY, randomise


@pytest.fixture(scope="session")
def pooling() -> tw.Subject:
    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=PAD,
        bos_token_id=BOS,
        cls_token_id=BOS,
        eos_token_id=EOS,
        sep_token_id=EOS,
        num_labels=3,  # pyright: ignore[reportCallIssue]
        classifier_pooling="mean",
    )
    model = ModernBertForSequenceClassification(config).eval()
    with torch.no_grad():
        randomise(model, torch.Generator().manual_seed(0))
    return tw.load(model)
