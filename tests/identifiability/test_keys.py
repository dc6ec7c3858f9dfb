"""Ambiguity given the keys: the table of P2's count, literal ranks, Jacobians."""

import pytest
import torch

from tests.architectures import captured
from tests.families import BY_NAME
from tests.identifiability.heads import generator, head_block, random_head, random_values
from tests.reference import twins
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.keys import free_ambiguity, margins, query_ambiguity, query_moves

ALL = slice(None)


@pytest.mark.parametrize(
    ("keys", "key_size", "value_size", "any_distribution", "given_keys"),
    [
        (30, 4, 4, 25, 0),
        (30, 4, 8, 21, 0),
        (30, 8, 4, 25, 4),
        (30, 16, 4, 25, 12),
        (6, 8, 4, 1, 1),
        (100, 64, 64, 35, 0),
    ],
)
def test_query_ambiguity_when_a_head_is_generic_then_follows_the_papers_table(
    keys: int, key_size: int, value_size: int, any_distribution: int, given_keys: int
) -> None:
    block = random_head(keys, key_size, value_size)
    space, weights = value_space(block), block.weights()
    assert bool((space.ambiguity == any_distribution).all())
    ambiguity = query_ambiguity(block.attention, space, ALL, weights)
    assert ambiguity is not None
    assert bool((ambiguity == given_keys).all())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("key_size", "value_size"), [(6, 3), (3, 3), (3, 6)])
def test_query_ambiguity_when_compared_with_the_literal_ranks_then_is_the_same(
    key_size: int, value_size: int, causal: bool
) -> None:
    block = random_head(12, key_size, value_size, causal=causal)
    space, weights = value_space(block), block.weights()
    ambiguity = query_ambiguity(block.attention, space, ALL, weights)
    assert ambiguity is not None
    keys = block.attention.keys()
    assert keys is not None
    values = twins.head_values(block, 0)
    for query, seen in enumerate(space.supports):
        expected = twins.row_ambiguity(weights[0, query, seen], keys[0, seen], values[seen])
        assert ambiguity[0, query] == expected


def test_query_ambiguity_when_logits_are_capped_then_follows_the_capped_softmax() -> None:
    block = random_head(14, 6, 3, softcap=2.0)
    space, weights = value_space(block), block.weights()
    ambiguity = query_ambiguity(block.attention, space, ALL, weights)
    assert ambiguity is not None
    query, key = block.attention.query, block.attention.key
    assert query is not None
    assert key is not None

    def row(q: torch.Tensor) -> torch.Tensor:
        return (2.0 * torch.tanh(key[0] @ q * block.attention.scaling / 2.0)).softmax(0)

    moves = torch.autograd.functional.jacobian(row, query[0, 3])
    assert isinstance(moves, torch.Tensor)
    shown = twins.head_values(block, 0).T @ moves
    expected = torch.linalg.matrix_rank(moves) - torch.linalg.matrix_rank(shown, rtol=1e-10)
    assert ambiguity[0, 3] == expected == 3


def test_query_ambiguity_when_a_row_is_peaked_then_is_judged_by_output_per_move() -> None:
    block = random_head(20, 4, 6)
    query = block.attention.query
    assert query is not None
    sharp = head_block(block.attention.value, query=8 * query, key=block.attention.key)
    weights = sharp.weights()
    assert float(weights.amax(-1).max()) > 0.999
    ambiguity = query_ambiguity(sharp.attention, value_space(sharp), ALL, weights)
    assert ambiguity is not None
    assert not ambiguity.any()


@pytest.mark.parametrize(("key_size", "value_size"), [(6, 3), (3, 3), (3, 6), (1, 1)])
def test_margins_when_compared_with_the_ambiguity_then_exceed_one_where_a_row_is_locally_unique(
    key_size: int, value_size: int
) -> None:
    block = random_head(12, key_size, value_size)
    space, weights = value_space(block), block.weights()
    ambiguity = query_ambiguity(block.attention, space, ALL, weights)
    assert ambiguity is not None
    for part in query_moves(block.attention, space, ALL, weights, space.ambiguity > 0):
        sizes = margins(part.moves, part.matrix, part.cuts)
        assert ((sizes > 1) == (ambiguity[part.head, part.rows] == 0)).all()
        basis = torch.linalg.qr(part.moves[0]).Q
        if key_size <= value_size:  # all moves are reachable and independent
            literal = torch.linalg.svdvals(part.matrix.mT @ basis)[-1] / part.cuts[0]
            assert float(sizes[0]) == pytest.approx(float(literal))


def test_query_ambiguity_when_keys_were_not_captured_then_is_none() -> None:
    block = captured(BY_NAME["gptj"]).blocks[0]
    assert block.attention.key is None
    assert query_ambiguity(block.attention, value_space(block), ALL, block.weights()) is None


@pytest.mark.parametrize(
    ("keys", "key_size", "value_size"), [(6, 2, 2), (6, 2, 4), (5, 1, 1), (6, 3, 2), (4, 6, 2), (5, 4, 5)]
)
def test_free_ambiguity_when_compared_with_the_jacobian_of_queries_and_keys_then_is_its_kernel(
    keys: int, key_size: int, value_size: int
) -> None:
    """Rank of (Q, K) → A minus the rank of (Q, K) → A·V, at a random point."""
    query, key = (torch.randn(keys, key_size, dtype=torch.float64, generator=generator(s)) for s in (1, 2))
    values = random_values(1, keys, value_size)[0]

    def attention(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (q @ k.T).softmax(-1)

    parts = torch.autograd.functional.jacobian(attention, (query, key))
    moves = torch.cat([part.reshape(keys * keys, -1) for part in parts], 1)  # [entry parameter]
    shown = torch.einsum("ijp,jc->icp", moves.reshape(keys, keys, -1), values).reshape(keys * value_size, -1)
    expected = torch.linalg.matrix_rank(moves, rtol=1e-9) - torch.linalg.matrix_rank(shown, rtol=1e-9)
    assert free_ambiguity(keys, key_size, value_size) == expected


def test_log_attention_when_keys_are_narrow_then_has_their_rank() -> None:
    weights = random_head(20, 4, 4).weights()[0]
    centred = weights.log() - weights.log().mean(-1, keepdim=True)
    assert torch.linalg.matrix_rank(centred, rtol=1e-10) == 4
    assert torch.linalg.matrix_rank(weights.log(), rtol=1e-10) == 5
