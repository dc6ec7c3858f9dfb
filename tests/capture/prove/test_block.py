"""Blocks of a pass are proved or refused; `tests/contracts/test_proofs.py` forges those of real families too."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import thalweg as tw
from tests.capture.handmade import HEADS, IDS, TOKENS, WIDTH, handmade
from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import Pass, watch
from thalweg.capture.prove import block as prove
from thalweg.capture.prove.block import Place, non_finite_error, prove_blocks
from thalweg.capture.record import Block
from thalweg.capture.run import learn

MODEL = handmade(post_norm=True)
ANATOMY: Anatomy = learn(MODEL, {"input_ids": IDS})


def passed(ids: Tensor = IDS) -> Pass:
    with torch.no_grad():
        return watch(MODEL, {"input_ids": ids}, ANATOMY.taps, None, through_registry=False)


def proved(record: Pass, *lengths: int, **changes: Any) -> list[Block]:
    """The first layer's block of every example."""
    _, call, output = record.calls[0]
    places = [Place(number, "self", slice(0, count), slice(0, count)) for number, count in enumerate(lengths)]
    with torch.no_grad():
        return prove_blocks(MODEL, replace(ANATOMY.blocks[0], **changes), call, output, record.tensors, places)


def test_block_when_proved_then_has_the_pieces_of_its_wiring() -> None:
    (block,) = proved(passed(), TOKENS)
    assert block.name == "y.0"
    assert block.projection.shape == (HEADS, WIDTH // HEADS, WIDTH)
    assert torch.equal(block.projection.flatten(0, 1), MODEL.layer(0).d.weight.T)
    assert block.norm is not None
    torch.testing.assert_close(block.norm(block.summed), block.output)
    assert 0 < block.sum_error < block.tolerance
    assert block.parity < block.parity_tolerance == 2 * block.tolerance


def test_examples_when_in_a_batch_then_are_copies_of_their_own_rows() -> None:
    ids = torch.cat([IDS, IDS.flip(1)])
    blocks = proved(passed(ids), TOKENS, TOKENS)
    for row, block in zip(ids, blocks, strict=True):
        (alone,) = proved(passed(row[None]), TOKENS)
        torch.testing.assert_close(block.output, alone.output)
        torch.testing.assert_close(block.weights(), alone.weights())
        assert block.input.untyped_storage().nbytes() == 4 * TOKENS * WIDTH


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"multiplier": 0.9}, r"input plus the attention branch at 'y\.0\.d' \(block 'y\.0'\).*input of y\.0\.a"),
        ({"norm": replace(ANATOMY.blocks[0].norm, centred=False)}, "norm of the sum"),  # pyright: ignore[reportArgumentType]
        ({"projection": "y.1.d"}, "input plus the attention branch"),
    ],
    ids=["multiplier", "norm", "projection"],
)
def test_block_when_its_wiring_is_wrong_then_the_error_names_both_sides(changes: dict, facts: str) -> None:
    with pytest.raises(tw.ProofError, match=facts + ".*relative error.*tolerance.*cannot be verified"):
        proved(passed(), TOKENS, **changes)


def test_attention_when_it_does_not_give_the_kernels_result_then_is_refused() -> None:
    record = passed()
    time, call, output = record.calls[0]
    record.calls[0] = (time, replace(call, options={"scaling": 0.9}), output)
    with pytest.raises(tw.ProofError, match=r"weights times values of 'y\.0'.*kernel"):
        proved(record, TOKENS)


def test_states_when_not_finite_then_the_error_names_the_module() -> None:
    record = passed()
    for seen in record.seen:
        if seen.tap == ANATOMY.blocks[0].residual:
            seen.value[0, 2, 0] = torch.nan
    with pytest.raises(tw.ModelError, match=r"NaN or infinite activations.*'y\.0'"):
        proved(record, TOKENS)
    assert "'some.module'" in str(non_finite_error("some.module"))


def kernel_call(mask: Tensor | None, batch: int = 2, count: int = 5, **options: Any) -> tuple[Call, Tensor]:
    """A call of the plain kernel with random tensors, and what that returns."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, batch, 2, count, 3)
    logits = query @ key.mT * 3**-0.5
    if mask is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    output = (logits.softmax(-1) @ value).transpose(1, 2)  # [batch query head size]
    return Call(None, query, key, value, mask, options, "eager", lambda: (output, None)), output


def test_attention_when_cut_out_of_a_batch_then_loses_its_padding_and_an_idle_mask() -> None:
    real = torch.arange(5) < torch.tensor([5, 3])[:, None]  # [example key]
    call, output = kernel_call(real[:, None, None].expand(2, 1, 5, 5))
    whole, short = (
        prove._attention(call, output, Place(n, "self", slice(0, c), slice(0, c))) for n, c in ((0, 5), (1, 3))
    )
    assert whole.mask is None
    assert short.mask is None
    assert short.output.shape == (3, 2, 3)
    torch.testing.assert_close((short.weights() @ short.values()).transpose(0, 1), short.output)


def test_parity_when_examples_are_checked_together_then_is_that_of_each_alone() -> None:
    real = torch.arange(5) < torch.tensor([5, 3])[:, None]
    call, output = kernel_call(real[:, None, None].expand(2, 1, 5, 5))
    output = output.clone()
    output[1, 4] += 100  # padding does not count
    output[1, 1, 0, 0] += 0.5
    attentions = [
        prove._attention(call, output, Place(n, "self", slice(0, c), slice(0, c))) for n, c in ((0, 5), (1, 3))
    ]
    together = prove._parities(call, output, attentions)
    assert together[0] < 1e-6 < 0.01 < together[1]
    assert together == pytest.approx([prove._sampled_parity(attention) for attention in attentions], abs=1e-7)


def test_parity_when_a_text_is_long_then_rows_are_sampled_and_the_last_is_among_them() -> None:
    call, output = kernel_call(None, batch=1, count=100)
    output = output.clone()
    output[0, -1] += 1
    attention = prove._attention(call, output, Place(0, "self", slice(0, 100), slice(0, 100)))
    assert prove._sampled_parity(attention) > 0.01
    between = output.clone()
    between[0, -1] -= 1
    between[0, -2] += 1  # not among the 32 rows: found when the row is read
    attention = prove._attention(call, between, Place(0, "self", slice(0, 100), slice(0, 100)))
    assert prove._sampled_parity(attention) < 1e-6
    assert max(error for _, _, error in attention.row_chunks()) > 0.01


def test_scaling_when_the_call_does_not_name_it_then_is_one_over_the_root_of_the_size() -> None:
    call, output = kernel_call(None, batch=1)
    place = Place(0, "self", slice(0, 5), slice(0, 5))
    assert prove._attention(call, output, place).scaling == pytest.approx(3**-0.5)
    assert prove._attention(replace(call, options={"scaling": 2}), output, place).scaling == 2.0
    softcapped = prove._attention(replace(call, options={"softcap": 5.0, "s_aux": torch.zeros(2)}), output, place)
    assert softcapped.softcap == 5.0
    assert softcapped.has_sinks
