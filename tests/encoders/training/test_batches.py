"""Batches of similar length, and predictions that do not depend on them."""

import random

import torch

from tests.encoders.training.corpus import cued, tiny_bert
from thalweg.encoders.training.batches import batches, logits_of, predict
from thalweg.encoders.training.tokenizer import learn_tokenizer, token_ids

EXAMPLES = cued(60)
IDS = token_ids(learn_tokenizer(EXAMPLES.texts, 200), EXAMPLES.texts, 32)


def test_batches_when_made_then_hold_every_row_once_within_the_limit() -> None:
    groups = batches(IDS, 64, random.Random(0))
    assert sorted(row for rows in groups for row in rows) == list(range(len(IDS)))
    assert all(len(rows) * max(len(IDS[row]) for row in rows) <= 64 for rows in groups)
    assert [len(rows) for rows in batches(IDS, 1, random.Random(0))] == [1] * len(IDS)


def test_predictions_when_batched_then_are_those_of_each_text_alone() -> None:
    model = tiny_bert()
    batched = predict(model.train(), IDS, 0)
    assert model.training
    with torch.no_grad():
        alone = torch.cat([logits_of(model.eval(), [row], 0) for row in IDS])
    assert torch.allclose(batched, alone, atol=1e-5)
