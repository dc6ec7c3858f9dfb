"""Agreement between methods: correlations of ranks, and the tokens ranked furthest apart."""

import numpy as np
import pytest
from scipy.stats import rankdata

from thalweg.faithfulness.agreement import Disagreement, ExampleScores, agreements


def test_agreement_when_computed_pair_by_pair_then_is_the_same() -> None:
    generator = np.random.default_rng(4)
    names = ("a", "b", "c")
    examples = [
        ExampleScores(n, ["t"] * 7, {name: generator.integers(0, 5, 7).astype(float).tolist() for name in names})
        for n in range(6)
    ]
    for agreement in agreements(examples, names, 0):
        pair = (agreement.first, agreement.second)
        ranks = [[rankdata(example.scores[name]) for name in pair] for example in examples]
        expected = np.mean([np.corrcoef(first, second)[0, 1] for first, second in ranks])
        assert agreement.correlation.mean == pytest.approx(expected)


def test_agreement_when_two_tokens_are_swapped_then_both_are_named() -> None:
    scores = {"a": [3.0, 2.0, 1.0], "b": [2.0, 3.0, 1.0]}
    (agreement,) = agreements([ExampleScores(7, ["x", "y", "z"], scores)], ["a", "b"], 0)
    assert agreement.correlation.mean == pytest.approx(0.5)
    assert agreement.tokens == (Disagreement(7, "x", 1.0, 2.0, 3), Disagreement(7, "y", 2.0, 1.0, 3))
    assert agreement.tokens[0].size == 0.5


def test_agreement_when_a_method_failed_or_is_constant_then_the_example_does_not_count() -> None:
    examples = [
        ExampleScores(0, ["x", "y"], {"a": [1.0, 2.0]}),
        ExampleScores(1, ["x", "y"], {"a": [1.0, 2.0], "b": [5.0, 5.0]}),
        ExampleScores(2, ["x", "y"], {"a": [1.0, 2.0], "b": [4.0, 5.0]}),
    ]
    (agreement,) = agreements(examples, ["a", "b"], 0)
    assert (agreement.correlation.count, agreement.correlation.mean) == (1, pytest.approx(1))


def test_agreement_when_there_is_one_method_or_no_example_then_is_empty() -> None:
    assert agreements([ExampleScores(0, ["x"], {"a": [1.0]})], ["a"], 0) == []
    assert agreements([], ["a", "b"], 0) == []
