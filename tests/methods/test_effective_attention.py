"""Effective attention: unchanged for short texts, and with rows that sum to one if requested."""

import numpy as np

import thalweg as tw
from tests.families import BY_NAME


def explained(tokens: int, method: str = "effective_attention", **params: object) -> tw.Attribution:
    family = BY_NAME["bert"]
    return tw.explain(tw.load(family.build()), family.inputs(1, tokens), method, "all", layer=0, **params)


def test_effective_attention_when_tokens_are_no_more_than_dimensions_then_is_attention() -> None:
    assert np.array_equal(explained(8).scores, explained(8, "raw_attention").scores)


def test_effective_attention_when_tokens_are_more_than_dimensions_then_differs_from_attention() -> None:
    effective, attention = explained(30), explained(30, "raw_attention")
    assert np.abs(effective.scores - attention.scores).max() > 1e-3
    assert effective.row_sum_error > 1e-3
    assert any("negative" in sentence for sentence in effective.receipt.assumed)


def test_effective_attention_when_the_row_sum_is_kept_then_rows_sum_to_one() -> None:
    result = explained(30, constraint="row_sum")
    assert result.row_sum_error < 1e-5
    assert not any("need not sum" in sentence for sentence in result.receipt.assumed)
