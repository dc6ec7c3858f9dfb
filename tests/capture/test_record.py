"""Records of a pass: weights of hand-made attention, masks, parity, and blocks by number."""

import math
from dataclasses import replace

import pytest
import torch

import thalweg as tw
from tests.architectures import captured
from tests.decompose.handmade import handmade
from tests.families import BY_NAME
from thalweg.capture import record
from thalweg.capture.record import Attention

# Two queries and two keys of size 1 with logits [[0, ln 3], [0, 0]]: the rows are (1/4, 3/4) and (1/2, 1/2).
QUERY = torch.tensor([[[1.0], [0.0]]])
KEY = torch.tensor([[[0.0], [math.log(3)]]])
VALUE = torch.tensor([[[4.0], [8.0]]])
OUTPUT = torch.tensor([[[7.0]], [[6.0]]])  # [query head value_size]
ATTENTION = Attention(VALUE, OUTPUT, query=QUERY, key=KEY)


def test_weights_when_recomputed_then_are_the_softmax_of_the_logits() -> None:
    torch.testing.assert_close(ATTENTION.weights(), torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]))
    torch.testing.assert_close(ATTENTION.weights(slice(1, 2)), torch.tensor([[[0.5, 0.5]]]))
    assert float(ATTENTION.errors(slice(None), ATTENTION.weights(), ATTENTION.values()).max()) < 1e-6


def test_weights_when_scaled_or_biased_then_change_with_the_logits() -> None:
    doubled = replace(ATTENTION, scaling=2.0).weights()
    torch.testing.assert_close(doubled[0, 0], torch.tensor([0.1, 0.9]))  # logits 0 and ln 9
    biased = replace(ATTENTION, bias=torch.tensor([[[math.log(3), 0.0]]]).expand(1, 2, 2)).weights()
    torch.testing.assert_close(biased[0, 0], torch.tensor([0.5, 0.5]))


def test_weights_when_logits_are_capped_then_are_those_of_the_cap() -> None:
    capped = replace(ATTENTION, softcap=1.0)
    logit = math.tanh(math.log(3))  # 0.8
    torch.testing.assert_close(capped.weights()[0, 0], torch.tensor([0.0, logit]).softmax(0))
    torch.testing.assert_close(capped.softcap_slopes()[0, 0], torch.tensor([1.0, 1 - logit**2]))
    assert ATTENTION.softcap_slopes().tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


def test_rows_when_a_sink_takes_part_then_sum_to_less_than_one() -> None:
    attention = replace(ATTENTION, sinks=torch.tensor([0.0]))
    assert attention.has_sinks
    torch.testing.assert_close(attention.weights()[0, 0], torch.tensor([0.2, 0.6]))  # 1, 3 and the sink's 1


@pytest.mark.parametrize(
    ("options", "visible"),
    [
        ({}, [[True, True], [True, True]]),
        ({"causal": True}, [[True, False], [True, True]]),
        ({"window": 1}, [[True, False], [False, True]]),
        ({"mask": torch.tensor([[[False, True], [True, True]]])}, [[False, True], [True, True]]),
        ({"mask": torch.tensor([[[0.0, torch.finfo(torch.float32).min], [0.0, 0.0]]])}, [[True, False], [True, True]]),
    ],
    ids=["none", "causal", "window", "boolean", "added"],
)
def test_keys_when_hidden_then_have_no_weight(options: dict, visible: list[list[bool]]) -> None:
    attention = replace(ATTENTION, **options)
    assert attention.visible().tolist() == visible
    assert (attention.weights()[0] > 0).tolist() == visible
    torch.testing.assert_close(attention.weights().sum(-1), torch.ones(1, 2))


def test_heads_when_their_masks_differ_then_do_not_share_one() -> None:
    mask = torch.tensor([[[True, True], [True, True]], [[True, False], [True, True]]])
    attention = Attention(
        VALUE.expand(2, 2, 1), OUTPUT.expand(2, 2, 1), query=QUERY.expand(2, 2, 1), key=KEY.expand(2, 2, 1), mask=mask
    )
    assert not attention.heads_share_mask()
    assert replace(attention, mask=mask[:1]).heads_share_mask()
    assert attention.visible().all()


def test_values_when_heads_share_a_key_value_head_then_are_repeated() -> None:
    attention = Attention(VALUE, OUTPUT.expand(2, 4, 1), query=QUERY.expand(4, 2, 1), key=KEY)
    assert attention.values().shape == (4, 2, 1)
    keys = attention.keys()
    assert keys is not None and keys.shape == (4, 2, 1)
    torch.testing.assert_close(attention.weights()[3], ATTENTION.weights()[0])


def test_weights_when_kept_by_the_model_then_are_returned_as_they_are() -> None:
    attention = Attention(VALUE, OUTPUT, kept=torch.tensor([[[0.25, 0.75], [1.0, 0.0]]]))
    assert attention.weights(slice(1, 2)).tolist() == [[[1.0, 0.0]]]
    assert attention.visible().tolist() == [[True, True], [True, False]]
    assert attention.keys() is None
    assert attention.heads_share_mask()


def test_blocks_when_memory_is_short_then_give_the_same_rows_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "CHUNK_WEIGHTS", 2)
    pieces = list(ATTENTION.row_chunks())
    assert [rows.indices(2)[:2] for rows, _, _ in pieces] == [(0, 1), (1, 2)]
    assert torch.equal(torch.cat([weights for _, weights, _ in pieces], 1), ATTENTION.weights())
    assert max(parity for _, _, parity in pieces) < 1e-6


def test_block_when_weights_do_not_give_the_kernels_result_then_raises() -> None:
    block = handmade(torch.eye(2), torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1))
    assert block.weights().tolist() == [torch.eye(2).tolist()]
    wrong = replace(block, attention=replace(block.attention, kept=torch.full((1, 2, 2), 0.5)))
    with pytest.raises(tw.ProofError, match=r"'by hand'.*tolerance 2\.0e-04"):
        wrong.weights()


def test_block_when_a_row_is_not_a_number_then_raises() -> None:
    block = captured(BY_NAME["bert"]).blocks[0]
    assert block.attention.query is not None
    spoilt = block.attention.query.clone()
    spoilt[0, 3] = torch.nan
    with pytest.raises(tw.ProofError):
        replace(block, attention=replace(block.attention, query=spoilt)).weights()


def test_capture_when_a_layer_is_chosen_then_gives_the_blocks_up_to_it() -> None:
    capture = captured(BY_NAME["bert"])
    assert capture.block(-1) is capture.blocks[2]
    assert capture.upto(1) == capture.blocks[:2]
    assert capture.width == 32
    assert capture.has_single_answer
    for layer in (3, -4):
        with pytest.raises(tw.InputError, match=f"layer {layer} .* 3 attention blocks.* 0 to 2"):
            capture.block(layer)


def test_updated_tokens_when_the_model_is_an_encoder_decoder_then_are_those_of_one_text() -> None:
    capture = captured(BY_NAME["bart"])
    updated = capture.updated_tokens()
    source = capture.blocks[0].queries.stop
    assert updated[0].tolist() == [place < source for place in range(len(capture.tokens))]
    assert updated[-1].tolist() == [place >= source for place in range(len(capture.tokens))]
