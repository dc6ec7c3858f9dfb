"""Certificates of real passes: checks, figures recomputed from full maps, batches and precisions."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME, PROVED, Family
from tests.identifiability.heads import LONG
from tests.tiny import tiny_subject
from thalweg.decompose.value_space import value_space
from thalweg.identifiability.certificate import certify

each = pytest.mark.parametrize("family", PROVED, ids=lambda family: family.name)


@each
def test_certificate_when_a_family_is_captured_then_checks_hold_and_verdicts_follow_the_figures(family: Family) -> None:
    certificate = certify(captured(family))
    assert len(certificate.heads) == sum(block.attention.heads for block in captured(family).blocks)
    for check in certificate.receipt.checks.values():
        assert check.worst <= check.allowed
    json.dumps(certificate.to_dict(), allow_nan=False)
    for head in certificate.heads:
        block = captured(family).blocks[head.layer]
        assert head.ambiguity <= head.null_dimension
        assert max(head.row_ambiguity) == head.ambiguity
        assert head.row_ambiguity.count(0) == head.rows_determined
        assert (head.rows_determined == head.queries) == (head.ambiguity == 0) == (head.verdict == "identifiable")
        if head.rows_determined_given_keys is not None:
            assert head.rows_determined_given_keys >= head.rows_determined
        if head.verdict == "locally unique given the keys":
            assert head.ambiguity_given_keys == 0
        assert head.rank <= min(head.value_size, head.keys)
        assert 0 <= head.movable <= head.movable_most <= 1
        assert (head.movable == 0) or not head.determined
        assert sum(head.row_counts().values()) == head.queries
        assert head.margin_given_keys is None or head.margin_given_keys >= 0
        assert 0 <= head.null_share_row_sum <= head.null_share + 1e-6 <= 1 + 2e-6
        if not block.attention.has_sinks:
            assert sum(share.raw for share in head.received.values()) == pytest.approx(1, abs=1e-5)
            assert sum(share.effective_row_sum for share in head.received.values()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "mistral", "t5", "bloom"])
def test_certificate_when_figures_are_recomputed_from_whole_maps_then_are_the_same(name: str) -> None:

    capture = captured(BY_NAME[name])
    for head in certify(capture).heads:
        block = capture.blocks[head.layer]
        space, weights = value_space(block), block.weights()
        effective = space.effective(slice(None), weights)[head.head].numpy()
        raw, seen = weights[head.head].numpy(), space.supports.numpy()
        away = np.linalg.norm(raw - effective) / np.linalg.norm(raw)
        assert head.null_share == pytest.approx(away, abs=1e-5)
        if away > 1e-3:
            assert head.pearson == pytest.approx(np.corrcoef(raw[seen], effective[seen])[0, 1], abs=1e-3)
            rows = [
                np.corrcoef(rankdata(raw[i, row]), rankdata(effective[i, row]))[0, 1]
                for i, row in enumerate(seen)
                if row.sum() > 1 and np.ptp(raw[i, row]) > 0 and np.ptp(effective[i, row]) > 0
            ]
            assert head.spearman == pytest.approx(np.mean(rows), abs=1e-3)


def test_certificate_when_text_is_short_then_every_head_is_identifiable(bundled: tw.Subject) -> None:
    certificate = tw.trust(bundled, "a witty movie.")
    assert certificate.counts() == {"identifiable": 40, "locally unique given the keys": 0, "not identifiable": 0}
    assert certificate.most_misleading() == ()
    assert "40 of 40 heads have uniquely determined attention at 6 tokens" in certificate.summary()
    assert {head.longest for head in certificate.heads} == {17}
    assert all(head.pearson == head.spearman == 1 and head.null_share == 0 for head in certificate.heads)


def test_certificate_when_text_is_long_then_no_head_is_identifiable(bundled: tw.Subject) -> None:
    certificate = tw.trust(bundled, LONG)
    assert certificate.counts()["identifiable"] == 0
    worst = certificate.most_misleading(2)
    assert worst[0].movable >= worst[1].movable > 0.5
    head = certificate.head(0, 0)
    assert (head.rank, head.rank_with_ones, head.longest) == (16, 17, 17)
    assert head.ambiguity == len(certificate.tokens) - 17
    assert {"[CLS]", "[SEP]", "punctuation", "content"} == set(head.received)
    assert certificate.head(-1, 9) is certificate.heads[-1]
    with pytest.raises(tw.InputError, match=r"head must be .* got 99"):
        certificate.head(0, 99)
    with pytest.raises(tw.InputError, match=r"layer must be .* got 9"):
        certificate.head(9, 0)


def test_certificate_when_the_example_was_padded_in_a_batch_then_is_the_same() -> None:
    subject = tiny_subject()
    texts = ["the old table.", "the keys to the cabinet are on the old table, and the cat sees it!"]
    batch = subject.capture(texts)
    assert isinstance(batch, list)
    for text, capture in zip(texts, batch, strict=True):
        alone, together = tw.trust(subject, text), tw.trust(subject, capture)
        assert [head.rank for head in alone.heads] == [head.rank for head in together.heads]
        assert [head.null_share for head in alone.heads] == pytest.approx(
            [head.null_share for head in together.heads], abs=1e-4
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_certificate_when_in_another_precision_then_checks_hold(dtype: torch.dtype) -> None:
    family = BY_NAME["llama"]
    model = family.build()
    torch.nn.Module.to(model, dtype)
    capture = tw.load(model).capture(family.inputs(1, 12))
    assert isinstance(capture, tw.Capture)
    certificate = certify(capture)
    for check in certificate.receipt.checks.values():
        assert check.worst <= check.allowed
    single = certify(captured(family))
    assert [head.rank for head in certificate.heads] == [head.rank for head in single.heads]
