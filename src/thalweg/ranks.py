"""Rank correlation (Spearman's) of rows of scores."""

import numpy as np
from jaxtyping import Bool, Float

Scores = Float[np.ndarray, "*batch series entry"]


def centred_ranks(scores: Scores, visible: Bool[np.ndarray, "*#batch #series entry"] | None = None) -> Scores:
    """Ranks along the last axis minus their mean; equal scores share the mean of their ranks.

    Entries that are not `visible` are left out: the others are ranked among themselves, and they get 0. A row with
    NaN is NaN.

    >>> centred_ranks(np.array([[0.1, 0.7, 0.7]]))
    array([[-1. ,  0.5,  0.5]])
    """
    from scipy.stats import rankdata  # slow to import, and most results are not compared

    if visible is None:
        return rankdata(scores, axis=-1) - (scores.shape[-1] + 1) / 2
    ranks = rankdata(np.where(visible, scores, np.inf), axis=-1)
    mean = (ranks * visible).sum(-1, keepdims=True) / visible.sum(-1, keepdims=True)
    return (ranks - mean) * visible


def correlations(ranks: Scores) -> Float[np.ndarray, "*batch series series"]:
    """Correlation of every two rows of centred ranks: Σrs / √(Σr² Σs²), NaN where a row is constant.

    The shortcut 1 − 6Σd²/(n(n²−1)) differs as soon as two scores are equal.

    >>> correlations(centred_ranks(np.array([[1.0, 2.0, 3.0], [30.0, 20.0, 10.0]])))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    products = ranks @ ranks.swapaxes(-1, -2)
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    sizes = np.sqrt(squares[..., :, None] * squares[..., None, :])
    return np.divide(products, sizes, out=np.full_like(sizes, np.nan), where=sizes > 0)
