"""Rows as shares."""

import torch

from thalweg.decompose.rows import normalised, relative_to


def test_rows_when_normalised_or_compared_then_zero_rows_stay_zero() -> None:
    scores = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    assert normalised(scores).tolist() == [[0.25, 0.75], [0.0, 0.0]]
    compared = relative_to(scores, torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    assert compared.tolist() == [[0.25, 0.75], [0.0, 0.0]]
