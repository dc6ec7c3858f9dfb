"""The library's decompositions against their slow twins, on every family."""

import pytest
import torch

from tests.architectures import captured
from tests.families import PROVED, Family
from tests.reference import twins
from thalweg.capture.record import Attention
from thalweg.decompose.contributions import norms, proximity
from thalweg.decompose.parts import Parts, decompose, mixing_ratio

each = pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)


def blocks(family: Family) -> list:
    """The first block and the last, and of an encoder-decoder one of each role."""
    by_role = {block.role: block for block in captured(family).blocks}
    return [captured(family).blocks[0], *by_role.values()]


def columns(parts: Parts) -> torch.Tensor:
    """All T_ij of a block at once, composed from the library's pieces."""
    weights = parts.block.weights()
    vectors = torch.einsum("hij,hjd->ijd", weights, parts.vectors) * parts.factor[:, None]
    if parts.mixes_itself:
        diagonal = torch.arange(len(vectors))
        vectors[diagonal, diagonal] += parts.own
        return vectors
    return torch.cat([vectors, parts.own[:, None]], 1)


@each
def test_parts_when_added_up_then_equal_the_blocks_real_output(family: Family) -> None:
    for block in captured(family).blocks:
        parts = decompose(block)
        assert parts.error <= block.tolerance
        total = columns(parts).sum(1) + parts.rest
        torch.testing.assert_close(total, block.output.to(total.dtype), atol=2e-5, rtol=1e-4)


@each
def test_parts_when_compared_with_the_literal_formula_then_are_the_same(family: Family) -> None:
    for block in blocks(family):
        expected, rest = twins.transformed_vectors(block)
        parts = decompose(block)
        torch.testing.assert_close(columns(parts).double(), expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(parts.rest.double(), rest, atol=1e-5, rtol=1e-4)


@each
@pytest.mark.parametrize("order", [1, 2])
def test_proximity_when_compared_with_the_literal_formula_then_is_the_same(family: Family, order: int) -> None:
    for block in blocks(family):
        near = proximity(decompose(block), "l1" if order == 1 else "l2")[0].double()
        shares = near / near.sum(-1, keepdim=True)
        torch.testing.assert_close(shares, twins.alti_contributions(block, order), atol=1e-5, rtol=1e-4)


@each
def test_norms_and_mixing_ratio_when_compared_with_the_literal_formula_then_are_the_same(family: Family) -> None:
    for block in blocks(family):
        parts = decompose(block)
        expected, _ = twins.transformed_vectors(block)
        torch.testing.assert_close(norms(parts)[0].double(), expected.norm(dim=-1), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(mixing_ratio(parts).double(), twins.mixing_ratio(block), atol=1e-5, rtol=1e-4)


@each
def test_heads_when_measured_one_by_one_then_their_parts_add_up(family: Family) -> None:
    block = captured(family).blocks[0]
    parts = decompose(block)
    together = torch.einsum("hij,hjd->ijd", block.weights(), parts.vectors)
    apart = sum(block.weights()[h, :, :, None] * parts.vectors[h] for h in range(block.attention.heads))
    assert isinstance(apart, torch.Tensor)
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-4)


def test_weights_when_rows_are_taken_in_blocks_then_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.families import BY_NAME

    for name in ("llama", "mistral", "gemma2", "gpt_oss", "t5", "bert"):
        attention: Attention = captured(BY_NAME[name]).blocks[1].attention
        expected = attention.weights()
        monkeypatch.setattr("thalweg.capture.record.CHUNK_WEIGHTS", attention.heads * attention.value.shape[1] * 5)
        pieces = list(attention.row_chunks())
        assert len(pieces) == 3
        together = torch.cat([weights for _, weights, _ in pieces], 1)
        torch.testing.assert_close(together, expected, atol=1e-6, rtol=1e-5)
        assert max(parity for _, _, parity in pieces) < 1e-5
