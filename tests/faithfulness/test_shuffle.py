"""Shuffled weights: the same numbers in another order, on a copy."""

import torch

from tests.tiny import snapshot, tiny_subject
from thalweg.faithfulness.shuffle import shuffle_weights


def test_weights_when_shuffled_then_are_permuted_on_a_copy_by_the_seed() -> None:
    subject = tiny_subject("gpt2")
    before = snapshot(subject.model)
    first, same, other = (shuffle_weights(subject, seed).model for seed in (3, 3, 4))
    assert snapshot(subject.model) == before
    moved = 0
    for original, shuffled, repeated, reseeded in zip(
        *(model.parameters() for model in (subject.model, first, same, other)), strict=True
    ):
        assert torch.equal(shuffled.flatten().sort().values, original.flatten().sort().values)
        assert torch.equal(shuffled, repeated)
        moved += not torch.equal(shuffled, original) and not torch.equal(shuffled, reseeded)
    assert moved > 0


def test_weights_when_shared_then_stay_shared() -> None:
    model = shuffle_weights(tiny_subject("gpt2"), 0).model
    output = model.get_output_embeddings()
    assert output is not None
    assert model.get_input_embeddings().weight is output.weight
