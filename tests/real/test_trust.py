"""Certificates and alternatives of real models."""

import numpy as np
import pytest

import thalweg as tw
from tests.identifiability.orders import Exact, agreement, exact_widths, farthest_moves
from tests.real.models import minilm, smollm

pytestmark = pytest.mark.real
TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, and "
    "what is the use of a book, thought Alice, without pictures or conversations? So she was considering in her mind "
    "whether the pleasure of making a daisy-chain would be worth the trouble of getting up and picking the daisies."
)


def test_certificate_when_minilm_reads_more_tokens_than_dimensions_then_no_head_is_determined() -> None:
    certificate = tw.trust(minilm(), TEXT)
    assert len(certificate.tokens) > 64
    for check in certificate.receipt.checks.values():
        assert check.worst <= check.allowed
    assert certificate.counts()["identifiable"] == 0
    assert {head.rank for head in certificate.heads} == {32}
    assert {head.longest for head in certificate.heads} == {33}
    assert np.mean([head.pearson for head in certificate.heads]) < 0.95
    rows = certificate.row_counts()
    assert rows["locally unique given the keys"] > 0.9 * sum(rows.values())  # almost all, unlike heads
    assert certificate.counts()["locally unique given the keys"] < 0.9 * len(certificate.heads)


@pytest.mark.parametrize("exact", [exact_widths, farthest_moves])
def test_order_of_heads_when_minilm_reads_a_text_then_agrees_with_what_can_move(exact: Exact) -> None:
    capture = minilm().capture_one(TEXT)
    assert agreement([capture], exact(capture, 8)) > 0.6


def test_certificate_when_minilm_reads_a_short_text_then_every_head_is_determined() -> None:
    certificate = tw.trust(minilm(), "Alice was beginning to get very tired.")
    assert certificate.counts()["identifiable"] == len(certificate.heads) == 72


def test_alternatives_when_put_into_minilm_then_its_output_does_not_move() -> None:
    capture = minilm().capture(TEXT)
    assert isinstance(capture, tw.Capture)
    other = tw.alternatives(minilm(), capture, 3, 4, target=list(range(0, len(capture.tokens), 8))).polytope
    assert other is not None
    assert other.total_variation.max() > 0.3
    assert other.moved <= other.allowed < other.control


def test_certificate_when_smollm_is_causal_then_early_rows_are_determined_and_late_ones_are_not() -> None:
    certificate = tw.trust(smollm(), TEXT)
    assert certificate.counts()["identifiable"] == 0
    for check in certificate.receipt.checks.values():
        assert check.worst <= check.allowed
    for head in certificate.heads:
        assert head.ambiguity == len(certificate.tokens) - head.rank_with_ones
        assert 0 < head.rows_determined <= head.longest == 65
    layer, head = max((entry.movable, (entry.layer, entry.head)) for entry in certificate.heads)[1]
    other = tw.alternatives(smollm(), TEXT, layer, head, target=-1).polytope
    assert other is not None
    assert other.moved <= other.allowed
