"""Certificates of real models: what the papers promise, and proofs on the models themselves."""

import numpy as np
import pytest

import thalweg as tw
from tests.real.models import minilm, smollm

pytestmark = pytest.mark.real
TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, and "
    "what is the use of a book, thought Alice, without pictures or conversations? So she was considering in her mind "
    "whether the pleasure of making a daisy-chain would be worth the trouble of getting up and picking the daisies."
)


def test_certificate_when_minilm_reads_more_tokens_than_dimensions_then_no_head_is_determined() -> None:
    found = tw.trust(minilm(), TEXT)
    assert len(found.tokens) > 64
    for check in found.receipt.checks.values():
        assert check.worst <= check.allowed
    assert found.counts()["identifiable"] == 0
    assert {one.rank for one in found.heads} == {32}
    assert {one.longest for one in found.heads} == {33}
    assert np.mean([one.pearson for one in found.heads]) < 0.95
    given = [one.rows_determined_given_keys for one in found.heads if one.rows_determined_given_keys is not None]
    assert np.mean(given) / len(found.tokens) > 0.9  # almost all rows are unique among softmaxes of their keys


def test_certificate_when_minilm_reads_a_short_text_then_every_head_is_determined() -> None:
    found = tw.trust(minilm(), "Alice was beginning to get very tired.")
    assert found.counts()["identifiable"] == len(found.heads) == 72


def test_alternatives_when_put_into_minilm_then_its_output_does_not_move() -> None:
    capture = minilm().capture(TEXT)
    assert isinstance(capture, tw.Capture)
    found = tw.alternatives(minilm(), capture, 3, 4, target=list(range(0, len(capture.tokens), 8))).polytope
    assert found is not None
    assert found.total_variation.max() > 0.3
    assert found.moved <= found.allowed < found.control


def test_certificate_when_smollm_is_causal_then_early_rows_are_determined_and_late_ones_are_not() -> None:
    found = tw.trust(smollm(), TEXT)
    assert found.counts()["identifiable"] == 0
    for check in found.receipt.checks.values():
        assert check.worst <= check.allowed
    for one in found.heads:
        assert one.ambiguity == len(found.tokens) - one.rank_with_ones
        assert 0 < one.rows_determined <= one.longest == 65
    layer, head = max((one.null_share_row_sum, (one.layer, one.head)) for one in found.heads)[1]
    other = tw.alternatives(smollm(), TEXT, layer, head, target=-1).polytope
    assert other is not None
    assert other.moved <= other.allowed
