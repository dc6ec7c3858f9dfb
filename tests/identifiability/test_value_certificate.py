"""What values alone say of heads, against whole certificates: the quick way and the way of a certificate."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.architectures import captured
from tests.families import PROVED, Family
from tests.identifiability.heads import head_block, random_values
from tests.tiny import tiny_subject
from thalweg.capture.record import Block, Capture
from thalweg.decompose.value_space import outward_map
from thalweg.identifiability import value_certificate as room
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.value_certificate import briefs
from thalweg.tokens import anonymous

FIGURES = ("null_share", "null_share_row_sum", "pearson")


def check(capture: Capture, close: float) -> None:
    (found,) = briefs([capture])
    whole = certify(capture)
    for one, head in zip(found.heads, whole.heads, strict=True):
        assert (one.layer, one.head, one.rank, one.ambiguity) == (head.layer, head.head, head.rank, head.ambiguity)
        assert (one.verdict == "identifiable") == (head.verdict == "identifiable")
        for name in FIGURES:
            assert getattr(one, name) == pytest.approx(getattr(head, name), abs=close, nan_ok=True)
    for check in found.receipt.checks.values():
        assert check.worst <= check.allowed
    assert set(found.receipt.checks) == set(whole.receipt.checks)


@pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)
def test_brief_when_a_family_is_captured_then_says_what_a_certificate_says(family: Family) -> None:
    check(captured(family), 2e-3)  # where nothing is lost, single precision leaves the root of its rounding


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24), st.integers(1, 9), st.integers(0, 1000), st.booleans())
def test_brief_when_heads_are_random_then_says_what_a_certificate_says(
    keys: int, size: int, seed: int, causal: bool
) -> None:
    check(_capture(head_block(random_values(2, keys, size, seed), causal=causal)), 1e-6)


@pytest.mark.parametrize("keys", [3, 8, 9, 10, 30])
def test_brief_when_all_keys_are_seen_and_values_are_clear_then_takes_the_quick_way(keys: int) -> None:
    block = head_block(random_values(2, keys, 8))
    basis = room._basis(block, outward_map(block))
    assert basis is not None
    assert basis.rank == min(keys, 8)
    assert basis.ambiguity == max(0, keys - 9)
    check(_capture(block), 1e-9)


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": True, "window": 3}], ids=["causal", "window"])
def test_brief_when_queries_see_different_keys_of_a_short_text_then_takes_the_quick_way(options: dict) -> None:
    block = head_block(random_values(2, 7, 8), **options)
    basis = room._basis(block, outward_map(block))
    assert basis is not None
    assert (basis.rank, basis.ambiguity) == (options.get("window", 7), 0)
    check(_capture(block), 1e-9)


@pytest.mark.parametrize("case", ["few directions", "nearly few directions", "ones among the values", "causal"])
def test_brief_when_the_rank_is_not_clear_then_goes_the_way_of_a_certificate(case: str) -> None:
    values = random_values(2, 20, 8)
    if case == "few directions":
        values[..., 3:] = values[..., :5]
    if case == "nearly few directions":  # which only a full decomposition in double precision can tell
        values[..., 7] = values[..., 0] + 1e-9 * values[..., 7]
    if case == "ones among the values":
        values[..., 0] = 1.0
    block = head_block(values, causal=case == "causal")
    assert room._basis(block, outward_map(block)) is None
    check(_capture(block), 1e-9)


def test_brief_when_values_are_badly_conditioned_then_columns_are_made_orthogonal_again() -> None:
    values = random_values(2, 40, 8) * 10.0 ** -torch.arange(0, 4, 0.5, dtype=torch.float64)
    block = head_block(values)
    basis = room._basis(block, outward_map(block))
    assert basis is not None and basis.columns is not None
    gram = basis.columns.mT @ basis.columns
    torch.testing.assert_close(gram, torch.eye(9, dtype=torch.float64).expand_as(gram), atol=1e-12, rtol=0)
    check(_capture(block), 1e-7)


def test_briefs_when_captures_go_together_then_say_the_same_as_alone() -> None:
    captures = tiny_subject("bert").capture(["the old dog runs", "a cat and a dog sleep in the sun all day"])
    assert isinstance(captures, list)
    assert [one.heads for one in briefs(captures)] == [briefs([one])[0].heads for one in captures]


def _capture(block: Block) -> Capture:
    """One made-up block as if it had been captured."""
    return Capture(anonymous(block.keys.stop), (block,), None, (), {}, lambda: None)  # pyright: ignore[reportArgumentType]
