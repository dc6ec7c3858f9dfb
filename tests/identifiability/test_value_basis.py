"""Bases of values by Cholesky factorisation: where the rank is clear, and where the full decomposition is needed."""

import pytest
import torch

from tests.identifiability.heads import block_capture, head_block, random_values
from tests.identifiability.test_brief_certificate import assert_agrees
from thalweg.decompose.value_space import outward_map
from thalweg.identifiability.value_basis import clear_basis


@pytest.mark.parametrize("keys", [3, 8, 9, 10, 30])
def test_basis_when_all_keys_are_visible_then_has_rank_and_ambiguity_of_random_values(keys: int) -> None:
    block = head_block(random_values(2, keys, 8))
    basis = clear_basis(block, outward_map(block))
    assert basis is not None
    assert basis.rank == min(keys, 8)
    assert basis.ambiguity == max(0, keys - 9)


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": True, "window": 3}], ids=["causal", "window"])
def test_basis_when_queries_of_a_short_text_see_different_keys_then_is_known(options: dict) -> None:
    block = head_block(random_values(2, 7, 8), **options)
    basis = clear_basis(block, outward_map(block))
    assert basis is not None
    assert (basis.rank, basis.ambiguity) == (options.get("window", 7), 0)


@pytest.mark.parametrize("case", ["few directions", "nearly few directions", "ones among the values", "causal"])
def test_basis_when_the_rank_is_not_clear_then_is_none_and_the_brief_takes_the_full_path(case: str) -> None:
    values = random_values(2, 20, 8)
    if case == "few directions":
        values[..., 3:] = values[..., :5]
    if case == "nearly few directions":  # only a full decomposition in double precision resolves this
        values[..., 7] = values[..., 0] + 1e-9 * values[..., 7]
    if case == "ones among the values":
        values[..., 0] = 1.0
    block = head_block(values, causal=case == "causal")
    assert clear_basis(block, outward_map(block)) is None
    assert_agrees(block_capture(block), 1e-9)


def test_basis_when_values_are_badly_conditioned_then_columns_are_made_orthogonal_again() -> None:
    values = random_values(2, 40, 8) * 10.0 ** -torch.arange(0, 4, 0.5, dtype=torch.float64)
    block = head_block(values)
    basis = clear_basis(block, outward_map(block))
    assert basis is not None
    assert basis.columns is not None
    gram = basis.columns.mT @ basis.columns
    torch.testing.assert_close(gram, torch.eye(9, dtype=torch.float64).expand_as(gram), atol=1e-12, rtol=0)
    assert_agrees(block_capture(block), 1e-7)
