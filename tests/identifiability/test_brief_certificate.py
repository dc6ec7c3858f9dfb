"""Brief certificates against full ones, on both paths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.architectures import captured
from tests.families import PROVED, Family
from tests.identifiability.heads import block_capture, head_block, random_values
from tests.tiny import tiny_subject
from thalweg.capture.record import Capture
from thalweg.identifiability.brief_certificate import brief_certificates
from thalweg.identifiability.certificate import certify

FIGURES = ("null_share", "null_share_row_sum", "pearson")


def assert_agrees(capture: Capture, close: float) -> None:
    (brief,) = brief_certificates([capture])
    full = certify(capture)
    for short, head in zip(brief.heads, full.heads, strict=True):
        assert (short.layer, short.head, short.rank, short.ambiguity) == (
            head.layer,
            head.head,
            head.rank,
            head.ambiguity,
        )
        assert (short.verdict == "identifiable") == (head.verdict == "identifiable")
        for name in FIGURES:
            assert getattr(short, name) == pytest.approx(getattr(head, name), abs=close, nan_ok=True)
    for check in brief.receipt.checks.values():
        assert check.worst <= check.allowed
    assert set(brief.receipt.checks) == set(full.receipt.checks)


@pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)
def test_brief_when_a_family_is_captured_then_agrees_with_the_certificate(family: Family) -> None:
    assert_agrees(captured(family), 2e-3)  # where nothing is lost, single precision leaves the root of its rounding


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24), st.integers(1, 9), st.integers(0, 1000), st.booleans())
def test_brief_when_heads_are_random_then_agrees_with_the_certificate(
    keys: int, size: int, seed: int, causal: bool
) -> None:
    assert_agrees(block_capture(head_block(random_values(2, keys, size, seed), causal=causal)), 1e-6)


@pytest.mark.parametrize("keys", [3, 8, 9, 10, 30])
def test_brief_when_all_keys_are_visible_and_values_are_clear_then_agrees_with_the_certificate(keys: int) -> None:
    assert_agrees(block_capture(head_block(random_values(2, keys, 8))), 1e-9)


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": True, "window": 3}], ids=["causal", "window"])
def test_brief_when_queries_of_a_short_text_see_different_keys_then_agrees_with_the_certificate(options: dict) -> None:
    assert_agrees(block_capture(head_block(random_values(2, 7, 8), **options)), 1e-9)


def test_briefs_when_captures_are_certified_together_then_equal_those_alone() -> None:
    captures = tiny_subject("bert").capture(["the old dog runs", "a cat and a dog sleep in the sun all day"])
    assert isinstance(captures, list)
    alone = [brief_certificates([capture])[0].heads for capture in captures]
    assert [brief.heads for brief in brief_certificates(captures)] == alone
