"""Tokens may meet in attention only."""

import pytest
import torch

import thalweg as tw
from tests.capture.handmade import IDS, TOKENS, WIDTH, Handmade, handmade
from tests.families import BY_NAME
from thalweg.capture.attention import adding_leaves
from thalweg.capture.discover.block import discover_blocks
from thalweg.capture.discover.tokenwise import check_tokenwise, embedding_leaves
from thalweg.capture.observe import watch


def check(model: Handmade) -> None:
    attend, leaves = adding_leaves()
    with embedding_leaves(model) as embedded:
        trace = watch(model, {"input_ids": IDS}, None, attend, through_registry=False)
    with torch.no_grad():
        blocks = discover_blocks(model, trace)
    check_tokenwise(trace, blocks, ["self", "self"], leaves, embedded)


def test_tokens_when_only_attention_mixes_them_then_pass() -> None:
    check(handmade())
    check(handmade(post_norm=True))


def test_tokens_when_mixed_between_blocks_then_the_error_names_both_places() -> None:
    with pytest.raises(tw.ProofError, match=r"between the attention block 'y\.0' and .*'y\.1'.*not attention"):
        check(handmade(convolved=True))


def test_tokens_when_mixed_after_the_embeddings_then_the_error_names_them() -> None:
    model = handmade()
    model.layer(0).register_forward_pre_hook(lambda _, args: (args[0] + args[0].roll(1, dims=1),))
    with pytest.raises(tw.ProofError, match=r"between the embeddings and .*'y\.0'"):
        check(model)


def test_tokens_when_mixed_before_the_logits_then_the_error_names_them() -> None:
    model = handmade()
    model.z.register_forward_pre_hook(lambda _, args: (args[0].roll(1, dims=1),))
    with pytest.raises(tw.ProofError, match="and the logits"):
        check(model)


def test_values_when_made_of_other_tokens_then_are_refused() -> None:
    model = BY_NAME["bert"].build()
    for layer in range(3):
        value = model.get_submodule(f"bert.encoder.layer.{layer}.attention.self.value")
        value.register_forward_hook(lambda _, __, output: output.roll(1, dims=1))
    with pytest.raises(tw.ProofError, match="mixed by something that is not attention"):
        tw.load(model).capture(BY_NAME["bert"].inputs(1, 8))


def test_leaves_when_the_block_ends_then_no_hook_is_left() -> None:
    model = handmade()
    with embedding_leaves(model) as leaves:
        model(IDS)
    assert [tuple(leaf.shape) for leaf in leaves] == [(1, TOKENS, WIDTH)]
    assert not model.x._forward_hooks
    model(IDS)
    assert len(leaves) == 1
