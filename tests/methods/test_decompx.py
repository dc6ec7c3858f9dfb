"""DecompX on a single token, whose parts can all be named."""

import pytest

import thalweg as tw
from tests.families import BY_NAME, text


def test_decompx_when_there_is_one_token_then_it_has_the_whole_logit() -> None:
    result = tw.explain(tw.load(BY_NAME["gpt2"].build()), text(1, 1), "decompx", -1)
    assert result.scores[0, 0] == pytest.approx(result.receipt.figures["logit"], rel=1e-5)


def test_decompx_when_biases_are_apart_then_the_token_and_they_sum_to_the_logit() -> None:
    result = tw.explain(tw.load(BY_NAME["gpt2"].build()), text(1, 1), "decompx", -1, biases="apart")
    figures = result.receipt.figures
    assert figures["no token"] != 0
    assert result.scores[0, 0] + figures["no token"] == pytest.approx(figures["logit"], rel=1e-5)
