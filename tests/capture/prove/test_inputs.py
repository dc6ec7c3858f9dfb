"""Tokens are changed in coded halves: every first state must follow from the token at its own position."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.families import BOS, BY_NAME, EOS, PAD
from thalweg.capture.prove.inputs import codes, special_ids

FAMILY = BY_NAME["bert"]


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_codes_when_two_rows_are_compared_then_a_choice_has_the_first_without_the_second(count: int) -> None:
    chosen = np.array(list(codes(count, np.random.default_rng(0))))  # [choice row]
    for first in range(count):
        for second in range(count):
            assert first == second or (chosen[:, first] & ~chosen[:, second]).any()


def test_special_ids_when_markers_are_free_then_is_the_padding() -> None:
    config = FAMILY.build().config
    assert special_ids(config) == {PAD, BOS, EOS}
    assert special_ids(config, ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")) == {PAD}


def lying_embeddings(source: int, target: int) -> Any:
    """A model whose embeddings give one position a little of another one's token, in long texts only."""
    model = FAMILY.build()

    def hook(_: Any, __: Any, output: Tensor) -> Tensor:
        if output.shape[1] <= 40:
            return output
        changed = output.clone()
        changed[:, target] += 0.01 * output[:, source]
        return changed

    model.get_submodule("bert.embeddings.LayerNorm").register_forward_hook(hook)
    return model


@pytest.mark.parametrize("target", [1, 11])
@pytest.mark.parametrize("source", [0, 7, 30, 44])
def test_embeddings_when_any_token_reaches_any_other_position_then_are_refused(source: int, target: int) -> None:
    subject = tw.load(lying_embeddings(source, target))
    subject.capture(FAMILY.inputs(1, 12))
    with pytest.raises(tw.ProofError, match="mixed by something that is not attention before the first block"):
        subject.capture(FAMILY.inputs(1, 45))


def test_embeddings_when_they_are_noisy_then_the_error_says_so() -> None:
    def add_noise(_: Any, __: Any, output: Tensor) -> Tensor:
        return output + 0.1 * torch.randn_like(output)

    model = FAMILY.build()
    model.get_submodule("bert.embeddings.LayerNorm").register_forward_hook(add_noise)
    with pytest.raises(tw.ProofError, match="differed between two equal passes"):
        tw.load(model).capture(FAMILY.inputs(1, 12))
