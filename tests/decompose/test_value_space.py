"""Rank, null space and effective attention: invariants, closed forms, and the pseudo-inverse as a second way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.architectures import captured
from tests.families import PROVED, Family
from tests.identifiability.heads import generator, head_block, random_values
from tests.reference import twins
from thalweg.capture.record import Block
from thalweg.decompose.value_space import ValueSpace, row_ranks, value_space
from thalweg.identifiability.keys import query_ambiguity

ALL = slice(None)
each = pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)


def null_projection(space: ValueSpace, head: int) -> torch.Tensor:
    basis = space.basis[head]
    return torch.eye(len(basis), dtype=torch.float64) - basis @ basis.mT


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24), st.integers(1, 9), st.integers(0, 1000), st.booleans(), st.booleans())
def test_effective_when_heads_are_random_then_keeps_the_invariants(
    keys: int, size: int, seed: int, causal: bool, row_sum: bool
) -> None:
    block = head_block(random_values(2, keys, size, seed), causal=causal)
    space, weights = value_space(block), block.weights()
    effective = space.effective(ALL, weights, row_sum)
    output = block.attention.values() @ block.projection
    torch.testing.assert_close(effective @ output, weights @ output, atol=1e-10, rtol=1e-10)
    away = weights - effective
    assert float((away * effective).sum((1, 2)).abs().max()) < 1e-10  # row by row a projection
    assert bool((effective.norm(dim=(1, 2)) <= weights.norm(dim=(1, 2)) + 1e-12).all())
    if row_sum:
        torch.testing.assert_close(effective.sum(-1), torch.ones_like(effective[..., 0]), atol=1e-10, rtol=0)
    for head in range(2):
        torch.testing.assert_close(
            effective[head], twins.effective_attention(block, head, row_sum, space.cut), atol=1e-9, rtol=0
        )


@each
def test_effective_when_families_are_compared_with_the_pseudo_inverse_then_is_the_same(family: Family) -> None:
    for block in captured(family).blocks:
        space, weights = value_space(block), block.weights()
        for row_sum in (False, True):
            effective = space.effective(ALL, weights, row_sum)
            for head in range(block.attention.heads):
                expected = twins.effective_attention(block, head, row_sum, space.cut)
                torch.testing.assert_close(effective[head].double(), expected, atol=2e-5, rtol=0)


@each
def test_dimensions_when_families_are_compared_with_a_full_decomposition_then_are_the_same(family: Family) -> None:
    for block in captured(family).blocks:
        space = value_space(block)
        for head in range(block.attention.heads):
            values = twins.head_values(block, head)
            values = values / torch.linalg.matrix_norm(values, 2)
            ones = torch.cat([values, torch.full((len(values), 1), len(values) ** -0.5, dtype=torch.float64)], 1)
            for query, seen in enumerate(block.attention.visible()):
                assert space.free[head, query] == twins.left_null_dimension(values[seen], space.cut)
                expected = twins.left_null_dimension((values if space.sinks else ones)[seen], space.cut)
                assert space.ambiguity[head, query] == expected


@pytest.mark.parametrize(("keys", "size"), [(20, 8), (9, 8), (8, 8), (10, 8), (40, 8), (1, 8), (2, 1)])
def test_dimensions_when_values_are_generic_then_follow_the_formula(keys: int, size: int) -> None:
    space = value_space(head_block(random_values(3, keys, size)))
    assert bool((space.free == max(keys - size, 0)).all())
    assert bool((space.ambiguity == max(keys - size - 1, 0)).all())


def test_null_projection_when_values_are_generic_then_is_a_projection_of_the_right_trace() -> None:
    space = value_space(head_block(random_values(2, 20, 6)))
    for head in range(2):
        projection = null_projection(space, head)
        torch.testing.assert_close(projection @ projection, projection, atol=1e-12, rtol=0)
        assert float(projection.trace()) == pytest.approx(14)


def test_effective_when_no_more_keys_than_dimensions_then_is_attention_to_the_last_digit() -> None:
    block = head_block(random_values(2, 8, 8, dtype=torch.float32))
    weights = block.weights()
    assert torch.equal(value_space(block).effective(ALL, weights), weights)


def test_effective_when_two_tokens_are_the_same_then_shares_their_columns_and_leaves_the_others() -> None:
    values = random_values(1, 6, 8)
    values[:, 4] = values[:, 1]
    block = head_block(values)
    space, weights = value_space(block), block.weights()
    assert bool((space.free == 1).all())
    assert bool((space.ambiguity == 1).all())
    effective = space.effective(ALL, weights)
    mean = weights[..., [1, 4]].mean(-1)
    torch.testing.assert_close(effective[..., 1], mean)
    torch.testing.assert_close(effective[..., 4], mean)
    others = [0, 2, 3, 5]
    torch.testing.assert_close(effective[..., others], weights[..., others])


def test_value_space_when_the_output_projection_loses_rank_then_counts_what_is_left() -> None:
    values = random_values(1, 12, 6)
    projection = torch.randn(1, 6, 2, dtype=torch.float64, generator=generator(5))
    projection = projection @ torch.randn(1, 2, 16, dtype=torch.float64, generator=generator(6))
    space = value_space(head_block(values, projection))
    assert space.rank[0].tolist() == [2] * 12
    assert space.capacity.tolist() == [2]
    assert space.ambiguity[0, 0] == 9


def test_value_space_when_the_projection_has_full_rank_then_is_that_of_the_values_alone() -> None:
    values = random_values(1, 12, 5)
    space = value_space(head_block(values))
    alone = value_space(head_block(values, torch.eye(5, dtype=torch.float64)[None]))
    torch.testing.assert_close(null_projection(space, 0), null_projection(alone, 0), atol=1e-10, rtol=0)


def test_value_space_when_a_constant_is_added_to_values_then_only_the_unconstrained_space_changes() -> None:
    values = random_values(1, 14, 4)
    first, second = (value_space(head_block(shifted)) for shifted in (values, values + torch.arange(4.0)))
    assert not torch.allclose(null_projection(first, 0), null_projection(second, 0), atol=1e-3)
    with_sum = [null_projection(space, 0) - torch.outer(space.ones[0], space.ones[0]) for space in (first, second)]
    torch.testing.assert_close(with_sum[0], with_sum[1], atol=1e-10, rtol=0)


def test_value_space_when_all_values_are_the_same_then_the_sum_adds_nothing() -> None:
    space = value_space(head_block(torch.ones(1, 7, 3, dtype=torch.float64)))
    assert space.rank[0, 0] == space.rank_with_ones[0, 0] == 1
    assert space.ambiguity[0, 0] == 6


def test_value_space_when_all_values_are_zero_then_nothing_is_determined() -> None:
    block = head_block(torch.zeros(1, 5, 3, dtype=torch.float64))
    space = value_space(block)
    assert space.rank[0, 0] == 0
    assert space.ambiguity[0, 0] == 4
    assert not space.effective(ALL, block.weights()).any()
    torch.testing.assert_close(space.effective(ALL, block.weights(), True), torch.full((1, 5, 5), 0.2).double())


def test_value_space_when_rounding_hides_a_direction_then_it_does_not_count() -> None:
    narrow = random_values(1, 30, 3)
    mixed = (narrow @ torch.randn(3, 8, dtype=torch.float64, generator=generator(3))).float()
    rounded = head_block(mixed, torch.randn(1, 8, 16, generator=generator(4)))
    assert value_space(rounded).rank[0, 0] == 3
    assert float(value_space(rounded).gap()[0]) > 100
    half = head_block(mixed.bfloat16(), torch.randn(1, 8, 16, generator=generator(4)).bfloat16())
    assert value_space(half).rank[0, 0] == 8  # rounded so coarsely, the numbers that are multiplied really have it


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_value_space_when_later_tokens_come_then_earlier_rows_of_a_causal_head_stay_as_they_are(
    dtype: torch.dtype,
) -> None:
    common = torch.randn(2, 1, 8, generator=generator(11))
    values = (common + 0.2 * torch.randn(2, 300, 8, generator=generator(12))).to(dtype)
    values[:, 200] *= 1e6  # one token far larger than all before it
    query, key = (torch.randn(2, 300, 8, generator=generator(s)).to(dtype) for s in (13, 14))
    projection = torch.randn(2, 8, 16, generator=generator(15)).to(dtype)

    def first(count: int) -> Block:
        part = {"query": query[:, :count], "key": key[:, :count]}
        return head_block(values[:, :count], projection, **part, causal=True)

    short, long = value_space(first(20)), value_space(first(300))
    assert torch.equal(short.ambiguity, long.ambiguity[:, :20])
    assert short.ambiguity[0].tolist() == [0] * 9 + list(range(1, 12))
    for row_sum in (False, True):
        alone = short.effective(ALL, first(20).weights(), row_sum)
        within = long.effective(ALL, first(300).weights(), row_sum)[:, :20, :20]
        torch.testing.assert_close(alone, within, atol=1e-4, rtol=0)
    moves = [
        query_ambiguity(block.attention, space, ALL, block.weights())
        for block, space in ((first(20), short), (first(300), long))
    ]
    assert moves[0] is not None
    assert moves[1] is not None
    assert torch.equal(moves[0], moves[1][:, :20])


@pytest.mark.parametrize("causal", [False, True])
def test_value_space_when_in_single_precision_then_agrees_with_double(causal: bool) -> None:
    values = random_values(2, 40, 6)
    query, key = (torch.randn(2, 40, 6, dtype=torch.float64, generator=generator(s)) for s in (7, 8))
    projection = torch.randn(2, 6, 12, dtype=torch.float64, generator=generator(9))
    double = head_block(values, projection, query=query, key=key, causal=causal)
    single = head_block(values.float(), projection.float(), query=query.float(), key=key.float(), causal=causal)
    exact, rounded = value_space(double), value_space(single)
    assert torch.equal(exact.rank, rounded.rank)
    assert torch.equal(exact.rank_with_ones, rounded.rank_with_ones)
    for row_sum in (False, True):
        expected = exact.effective(ALL, double.weights(), row_sum)
        effective = rounded.effective(ALL, single.weights(), row_sum)
        assert effective.dtype == torch.float32
        torch.testing.assert_close(effective.double(), expected, atol=2e-5, rtol=0)


def test_effective_when_rows_are_one_hot_or_have_zeros_then_keeps_the_output() -> None:
    query = torch.zeros(1, 3, 9, dtype=torch.float64)
    query[0, 0, 4] = 1e4  # keys are unit vectors: the softmax underflows to exact zeros
    query[0, 1, [0, 8]] = 1e4
    block = head_block(random_values(1, 9, 3), query=query, key=torch.eye(9, dtype=torch.float64)[None])
    space, weights = value_space(block), block.weights()
    assert weights[0, 0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert weights[0, 1, 0] == weights[0, 1, 8] == 0.5
    output = block.attention.values() @ block.projection
    effective = space.effective(ALL, weights)
    torch.testing.assert_close(effective @ output, weights @ output)
    assert bool((space.ambiguity == 5).all())  # what is zero by chance may still get weight


@pytest.mark.parametrize("window", [3, 6, 12])
def test_effective_when_a_window_slides_then_each_row_has_its_own_space(window: int) -> None:
    block = head_block(random_values(1, 20, 4), causal=True, window=window)
    space = value_space(block)
    seen = block.attention.visible().sum(-1)
    assert torch.equal(space.ambiguity[0], (seen - 5).clamp_min(0))
    expected = twins.effective_attention(block, 0, False, space.cut)
    torch.testing.assert_close(space.effective(ALL, block.weights())[0], expected, atol=1e-9, rtol=0)


def test_row_ranks_when_early_tokens_repeat_then_prefixes_stay_deficient() -> None:
    matrix = random_values(1, 10, 4)[0]
    matrix[1], matrix[2] = matrix[0], matrix[0]
    prefixes = torch.ones(10, 10, dtype=torch.bool).tril()
    assert row_ranks(matrix, prefixes, 1e-10)[0].tolist() == [1, 1, 1, 2, 3, 4, 4, 4, 4, 4]


def test_effective_when_prefixes_are_deficient_then_equals_the_pseudo_inverse() -> None:
    values = random_values(1, 12, 4)
    values[:, 1:5] = values[:, :1]
    block = head_block(values, causal=True)
    space = value_space(block)
    for row_sum in (False, True):
        expected = twins.effective_attention(block, 0, row_sum, space.cut)
        torch.testing.assert_close(space.effective(ALL, block.weights(), row_sum)[0], expected, atol=1e-9, rtol=0)


def test_effective_when_asked_for_some_rows_then_gives_these_rows() -> None:
    block = head_block(random_values(2, 15, 4), causal=True)
    space, weights = value_space(block), block.weights()
    full = space.effective(ALL, weights)
    part = space.effective(slice(6, 11), weights[:, 6:11])
    torch.testing.assert_close(part, full[:, 6:11], atol=1e-12, rtol=0)


def test_value_space_when_a_sink_takes_mass_then_rows_need_not_sum_to_one() -> None:
    sinks = torch.tensor([0.3, -1.0], dtype=torch.float64)
    block = head_block(random_values(2, 9, 8), sinks=sinks)
    space = value_space(block)
    assert bool((space.ambiguity == 1).all())  # without a sink nine keys and eight dimensions leave none
    assert space.columns(0, 0).shape == (10, 9)


def test_value_space_when_heads_see_different_keys_then_is_refused() -> None:
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[1, :, 0] = False
    block = head_block(random_values(2, 5, 3), mask=mask)
    with pytest.raises(Exception, match="different masks"):
        value_space(block)


def test_matrix_when_compared_with_the_heads_real_output_then_has_its_singular_values() -> None:
    block: Block = head_block(random_values(2, 12, 5))
    space = value_space(block)
    for head in range(2):
        expected = torch.linalg.svdvals(twins.head_values(block, head))[:5]
        torch.testing.assert_close(space.singular_values[head], expected / expected[0])
