"""Right-padded batches, on rows small enough to see the answer."""

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.families import MASK, PAD
from tests.tiny import UNKNOWN, byte_level, tiny_subject, wordpiece
from thalweg.capture.record import Blanks
from thalweg.models.padding import batch_of, blanks_of, pad_id, real_rows, right_padded


def tensors(**rows: list[list[int]]) -> dict[str, Tensor]:
    return {name: torch.tensor(values) for name, values in rows.items()}


def lists(batch: dict[str, Tensor]) -> dict[str, list[list[int]]]:
    return {name: tensor.tolist() for name, tensor in batch.items()}


def test_rows_when_batched_then_are_padded_and_masked_to_the_right() -> None:
    batch = batch_of([[5, 6, 7], [8]], pad=9)
    assert lists(batch) == {"input_ids": [[5, 6, 7], [8, 9, 9]], "attention_mask": [[1, 1, 1], [1, 0, 0]]}
    assert real_rows(batch) == [[5, 6, 7], [8]]


def test_batch_when_padded_to_the_left_then_every_column_is_moved() -> None:
    batch = tensors(
        input_ids=[[0, 5, 6], [7, 8, 9]], attention_mask=[[0, 1, 1], [1, 1, 1]], token_type_ids=[[0, 0, 1], [0, 1, 1]]
    )
    assert lists(right_padded(batch)) == {
        "input_ids": [[5, 6, 0], [7, 8, 9]],
        "attention_mask": [[1, 1, 0], [1, 1, 1]],
        "token_type_ids": [[0, 1, 0], [0, 1, 1]],
    }


def test_batch_when_one_side_is_moved_then_the_decoder_stays() -> None:
    batch = tensors(input_ids=[[0, 5]], attention_mask=[[0, 1]], decoder_input_ids=[[7, 8]])
    assert lists(right_padded(batch))["decoder_input_ids"] == [[7, 8]]
    assert lists(right_padded(batch, "decoder_"))["decoder_attention_mask"] == [[1, 1]]
    assert lists(right_padded(batch, "decoder_"))["input_ids"] == [[0, 5]]


@pytest.mark.parametrize("mask", [[[1, 0, 1]], [[0, 0, 0]]], ids=["hole", "all_zero"])
def test_mask_when_tokens_are_not_one_run_then_is_refused(mask: list[list[int]]) -> None:
    with pytest.raises(tw.InputError, match="attention_mask must mark one run"):
        right_padded(tensors(input_ids=[[5, 6, 7]], attention_mask=mask))


def test_pad_id_when_model_or_tokenizer_has_one_then_is_used() -> None:
    subject = tiny_subject()
    subject.model.config.pad_token_id = 7
    assert pad_id(subject.model, byte_level()) == 7
    subject.model.config.pad_token_id = None
    assert pad_id(subject.model, byte_level()) == byte_level().pad_token_id
    subject.model.config.pad_token_id = -1  # some configs mark its absence so
    assert pad_id(subject.model, None) == 0


def test_blanks_when_a_tokenizer_has_no_mask_then_are_the_unknown_token() -> None:
    subject = tiny_subject("bert")
    assert blanks_of(subject.model, subject.tokenizer) == Blanks(MASK, PAD, "[MASK]")
    tokenizer = wordpiece()
    tokenizer.mask_token = None
    assert blanks_of(subject.model, tokenizer) == Blanks(UNKNOWN, PAD, "[UNK]")
    assert blanks_of(subject.model, None) == Blanks(None, PAD, "none")
