"""Certificates as results: counts, sentences, lookups, all on hand-made heads."""

from dataclasses import replace
from typing import Any

import pytest

import thalweg as tw
from thalweg.identifiability.result import VERDICTS, Certificate, Head, Layer, Received
from thalweg.receipt import Check, Receipt
from thalweg.tokens import anonymous

HEAD = Head(
    layer=0,
    head=0,
    verdict="identifiable",
    queries=20,
    keys=20,
    key_size=4,
    value_size=16,
    rank=16,
    rank_with_ones=17,
    singular_values=(1.0, 0.5),
    cut=1e-6,
    gap=float("inf"),
    null_dimension=0,
    ambiguity=0,
    row_ambiguity=(0,) * 20,
    rows_determined=20,
    ambiguity_given_keys=0,
    rows_determined_given_keys=20,
    ambiguity_keys_free=0,
    margin_given_keys=None,
    movable=0.0,
    movable_most=0.0,
    rows_sampled=8,
    null_share=0.0,
    null_share_row_sum=0.0,
    pearson=1.0,
    spearman=1.0,
    effective_row_sums=(1.0, 1.0),
    longest=17,
    received={"content": Received(1.0, 1.0, 1.0)},
)
PARTLY = replace(
    HEAD,
    head=1,
    verdict="locally unique given the keys",
    ambiguity=3,
    rows_determined=5,
    movable=0.2,
    null_share_row_sum=0.6,
)
OPEN = replace(
    HEAD,
    head=2,
    verdict="not identifiable",
    ambiguity=3,
    rows_determined=0,
    rows_determined_given_keys=12,
    margin_given_keys=3.0,
    movable=0.4,
    movable_most=0.5,
    null_share_row_sum=0.1,
    longest=19,
)
LAYER = Layer(0, 3, heads_added=False, narrow=False, ambiguity_apart=6, ambiguity_together=6)
RECEIPT = Receipt({"parity": Check((1e-7,), 1e-5), "sum_of_parts": Check((1e-7,), 1e-5)}, {}, ())


def certificate(*heads: Head, layers: tuple[Layer, ...] = (LAYER,)) -> Certificate:
    return Certificate(heads, layers, ("block 0",), anonymous(20), RECEIPT, {"model": "tiny"})


def test_counts_when_heads_differ_then_have_every_verdict() -> None:
    assert certificate(HEAD, PARTLY, PARTLY, OPEN).counts() == {
        "identifiable": 1,
        "locally unique given the keys": 2,
        "not identifiable": 1,
    }


def test_summary_when_heads_differ_then_has_the_counts_and_the_glossarys_terms() -> None:
    summary = certificate(HEAD, PARTLY, PARTLY, OPEN).summary()
    assert "1 of 4 heads have uniquely determined attention at 20 tokens" in summary
    assert "2 are locally unique given their keys" in summary
    assert "1 are not identifiable" in summary
    assert "17 to 19 visible tokens" in summary


def test_row_counts_when_one_row_decides_a_verdict_then_still_count_the_others() -> None:
    assert OPEN.row_counts() == dict(zip(VERDICTS, (0, 12, 8), strict=True))
    assert replace(OPEN, rows_determined_given_keys=None).row_counts() == dict(zip(VERDICTS, (0, 0, 20), strict=True))
    result = certificate(HEAD, PARTLY, OPEN)
    assert result.row_counts() == dict(zip(VERDICTS, (25, 27, 8), strict=True))
    assert "41.7% of 60 rows have uniquely determined attention, and another 45.0%" in result.summary()
    assert result.to_dict()["row_counts"]["not identifiable"] == 8


def test_margin_when_singular_values_are_known_then_is_the_smallest_that_counts_over_the_cut() -> None:
    assert replace(HEAD, singular_values=(1.0, 0.5, 1e-9), cut=0.01).margin == pytest.approx(50)
    assert replace(HEAD, singular_values=(0.0,)).margin == 0


def test_summary_when_all_heads_are_identifiable_then_mentions_nothing_else() -> None:
    summary = certificate(HEAD).summary()
    assert "1 of 1 heads" in summary
    assert "locally unique" not in summary
    assert "not identifiable" not in summary
    assert "at most 17 visible" in summary


@pytest.mark.parametrize(
    ("head", "facts"),
    [
        (HEAD, ("layer 0 head 0", "uniquely determined", "17")),
        (PARTLY, ("15 of 20 rows", "3 free dimensions", "locally unique given the keys", "20%")),
        (OPEN, ("20 of 20 rows", "8 of them", "40%")),
        (replace(OPEN, rows_determined_given_keys=None), ("20 of 20 rows", "keys were not captured", "40%")),
    ],
    ids=["identifiable", "locally unique", "not identifiable", "no keys"],
)
def test_sentence_when_a_head_is_described_then_has_its_figures(head: Head, facts: tuple[str, ...]) -> None:
    for fact in facts:
        assert fact in head.sentence()
    assert head.to_dict()["sentence"] == head.sentence()


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({}, ("layer 0", "determines")),
        ({"heads_added": True, "ambiguity_together": 9}, ("added", "9 free dimensions", "3 more")),
        ({"narrow": True, "ambiguity_together": 9}, ("narrower", "9 free dimensions", "3 more")),
        ({"ambiguity_together": 7}, ("nearly singular", "7 free dimensions", "1 more")),
    ],
)
def test_layer_sentence_when_heads_cannot_be_separated_then_has_the_reason(
    changes: dict[str, Any], facts: tuple[str, ...]
) -> None:
    layer = replace(LAYER, **changes)
    assert layer.separable == (layer.ambiguity_together == 6)
    for fact in facts:
        assert fact in layer.sentence()


def test_head_when_looked_up_then_layers_count_from_both_ends() -> None:
    result = certificate(HEAD, PARTLY, OPEN)
    assert result.head(0, 2) is result.head(-1, 2) is OPEN
    for layer, head, fact in ((0, 3, "head must be from 0 to 2, got 3"), (1, 0, "layer must be from -1 to 0, got 1")):
        with pytest.raises(tw.InputError, match=fact):
            result.head(layer, head)


def test_most_misleading_when_some_heads_are_ambiguous_then_sorts_those_by_the_mass_that_can_move() -> None:
    assert certificate(HEAD, PARTLY, OPEN).most_misleading() == (OPEN, PARTLY)
    assert certificate(HEAD, PARTLY, OPEN).most_misleading(1) == (OPEN,)


def test_to_dict_when_a_figure_is_infinite_then_is_none() -> None:
    described = certificate(HEAD, OPEN).to_dict()
    assert described["heads"][0]["gap"] is None
    assert described["heads"][1]["verdict"] == "not identifiable"
    assert described["layers"][0]["separable"] is True
    assert described["most_misleading"] == [{"layer": 0, "head": 2}]
