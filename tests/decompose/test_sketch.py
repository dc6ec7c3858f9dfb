"""Sketched norms: the error bars cover as often as they claim."""

from functools import partial

import pytest
import torch
from torch import Tensor

from thalweg.decompose.sketch import CONFIDENCE, NEGLIGIBLE, sketched_norms


def matrices(kind: str, generator: torch.Generator, owners: int = 4, others: int = 5, width: int = 48) -> Tensor:
    """J [owner other result width] of high rank, of low rank, near the identity, or of very different sizes."""
    drawn = partial(torch.randn, generator=generator, dtype=torch.float64)
    if kind == "low rank":
        return drawn(owners, others, width, 3) @ drawn(owners, others, 3, width)
    if kind == "decaying":
        return drawn(owners, others, width, width) / torch.arange(1, width + 1)
    if kind == "identity":
        return torch.eye(width) + 0.1 * drawn(owners, others, width, width)
    return drawn(owners, others, width, width) * 10 ** drawn(owners, others, 1, 1)


@pytest.mark.parametrize("rows_are_owners", [True, False])
@pytest.mark.parametrize("kind", ["low rank", "decaying", "identity", "of all sizes"])
def test_error_bars_when_counted_over_many_seeds_then_cover_as_often_as_they_say(
    kind: str, rows_are_owners: bool
) -> None:
    whole = matrices(kind, torch.Generator().manual_seed(1))
    axis = int(rows_are_owners)
    norms = whole.square().sum((-2, -1)).sqrt()
    exact = norms / norms.sum(axis, keepdim=True)
    floor = NEGLIGIBLE / exact.shape[axis]
    covered = []

    def products(owners: Tensor, directions: Tensor) -> Tensor:
        return torch.einsum("cord,cd->cor", whole[owners], directions)

    like = torch.zeros(1, whole.shape[-1], dtype=torch.float64)
    for seed in range(150):
        found = sketched_norms(
            products,
            len(whole),
            64,
            like,
            lambda *_: None,
            rtol=0.1,
            seed=seed,
            rows_are_owners=rows_are_owners,
            worth=1.0,
        )
        assert found is not None
        made = found.norms / found.norms.sum(axis, keepdim=True)
        away = (made - exact).abs() / exact.clamp_min(floor)
        assert found.errors.max() <= 0.1
        assert found.used.max() <= whole.shape[-1]
        covered.append((away <= found.errors + 1e-12).double())
    rates = torch.stack(covered).mean(0)
    assert rates.mean() >= CONFIDENCE
    assert rates.min() >= CONFIDENCE - 0.05  # the worst of twenty entries, each counted 150 times
