"""Rank correlation against scipy's, with ties, masks and constant rows."""

import numpy as np
from scipy.stats import spearmanr

from thalweg.ranks import centred_ranks, correlations


def test_correlations_when_scores_have_ties_then_equal_scipys() -> None:
    scores = np.array([[0.1, 0.7, 0.7, 0.2, 0.9], [3.0, 1.0, 3.0, 3.0, 2.0], [5.0, 4.0, 3.0, 2.0, 1.0]])
    expected = spearmanr(scores, axis=1).statistic  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(correlations(centred_ranks(scores)), expected, atol=1e-14)


def test_correlations_when_a_row_is_constant_or_nan_then_is_nan_for_that_row_only() -> None:
    scores = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [np.nan, 1.0, 2.0], [3.0, 2.0, 1.0]])
    table = correlations(centred_ranks(scores))
    assert np.isnan(table[1:3]).all()
    assert np.isnan(table[:, 1:3]).all()
    assert (table[0, 0], table[0, 3]) == (1, -1)


def test_ranks_when_entries_are_hidden_then_are_those_of_the_visible_ones() -> None:
    scores = np.array([[[9.0, 0.1, 0.3, 0.2], [0.0, 5.0, 7.0, 6.0]]])  # [row series entry]
    visible = np.array([[[False, True, True, True]]])
    ranks = centred_ranks(scores, visible)
    assert ranks[0, 0].tolist() == [0, -1, 1, 0]
    assert correlations(ranks)[0, 0, 1] == 1
