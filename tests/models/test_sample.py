"""Short samples for learning the wiring: always eight tokens, special ones at the ends."""

import torch

from thalweg.models.sample import short_sample


def test_sample_when_the_text_is_long_then_is_cut_in_the_middle() -> None:
    ids = torch.arange(20)[None].repeat(2, 1)
    sample = short_sample({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert sample["input_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 6, 19]]
    assert sample["attention_mask"].tolist() == [[1] * 8]


def test_sample_when_the_text_is_short_then_repeats_it_with_other_ids() -> None:
    ids = torch.tensor([[1, 50, 60, 3, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0]]), "token_type_ids": ids * 0}
    sample = short_sample(inputs)
    assert sample["input_ids"].tolist() == [[1, 50, 60, 49, 59, 48, 58, 3]]
    assert sample["token_type_ids"].tolist() == [[0] * 8]


def test_sample_when_inputs_are_pixels_then_keeps_the_first_example() -> None:
    pixels = torch.rand(3, 3, 16, 16)
    assert torch.equal(short_sample({"pixel_values": pixels})["pixel_values"], pixels[:1])
