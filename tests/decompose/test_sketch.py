"""Sketched norms: the error bars cover as often as they claim."""

from functools import partial

import pytest
import torch
from torch import Tensor

from thalweg.decompose.sketch import CONFIDENCE, NEGLIGIBLE, exact_norms, sketched_norms
from thalweg.errors import ModelError


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
    jacobians = matrices(kind, torch.Generator().manual_seed(1))
    axis = int(rows_are_owners)
    norms = jacobians.square().sum((-2, -1)).sqrt()
    exact = norms / norms.sum(axis, keepdim=True)
    floor = NEGLIGIBLE / exact.shape[axis]
    covered = []

    def products(owners: Tensor, directions: Tensor) -> Tensor:
        return torch.einsum("cord,cd->cor", jacobians[owners], directions)

    like = torch.zeros(1, jacobians.shape[-1], dtype=torch.float64)
    for seed in range(150):
        sketch = sketched_norms(
            products,
            len(jacobians),
            64,
            like,
            lambda *_: None,
            rtol=0.1,
            seed=seed,
            rows_are_owners=rows_are_owners,
            worth=1.0,
        )
        assert sketch is not None
        shares = sketch.norms / sketch.norms.sum(axis, keepdim=True)
        away = (shares - exact).abs() / exact.clamp_min(floor)
        assert sketch.errors.max() <= 0.1
        assert sketch.used.max() <= jacobians.shape[-1]
        covered.append((away <= sketch.errors + 1e-12).double())
    rates = torch.stack(covered).mean(0)
    assert rates.mean() >= CONFIDENCE
    assert rates.min() >= CONFIDENCE - 0.05  # the worst of twenty entries, each counted 150 times


def test_exact_norms_when_all_directions_are_multiplied_then_are_frobenius_norms() -> None:
    blocks = torch.tensor([[[[3.0, 4.0]], [[0.0, 0.0]]], [[[1.0, 0.0]], [[0.0, 2.0]]]])  # [owner other result width]
    done = []

    def products(owners: Tensor, directions: Tensor) -> Tensor:
        return torch.einsum("cord,cd->cor", blocks[owners], directions)

    norms = exact_norms(products, 2, 3, torch.zeros(1, 2), lambda *progress: done.append(progress))
    assert norms.tolist() == [[5.0, 0.0], [1.0, 2.0]]
    assert done == [(3, 4), (4, 4)]


def test_sketch_when_more_directions_than_it_is_worth_are_needed_then_is_given_up() -> None:
    jacobians = matrices("low rank", torch.Generator().manual_seed(2))

    def products(owners: Tensor, directions: Tensor) -> Tensor:
        return torch.einsum("cord,cd->cor", jacobians[owners], directions)

    like = torch.zeros(1, jacobians.shape[-1], dtype=torch.float64)
    sketch = sketched_norms(
        products, len(jacobians), 64, like, lambda *_: None, rtol=0.01, seed=0, rows_are_owners=True, worth=0.2
    )
    assert sketch is None


def sketch_of(sizes: Tensor, width: int, rows_are_owners: bool, rtol: float = 0.05) -> object:
    """Sketch J = sizes[owner, other] · random, in single precision."""
    jacobians = sizes[..., None, None] * torch.randn(*sizes.shape, 3, width, generator=torch.Generator().manual_seed(0))

    def products(owners: Tensor, directions: Tensor) -> Tensor:
        return torch.einsum("cord,cd->cor", jacobians[owners], directions)

    like, report = torch.zeros(1, width), lambda *_: None
    sketch = sketched_norms(
        products, len(sizes), 64, like, report, rtol=rtol, seed=0, rows_are_owners=rows_are_owners, worth=1.0
    )
    return exact_norms(products, len(sizes), 64, like, report) if sketch is None else sketch.norms


@pytest.mark.parametrize("rows_are_owners", [True, False])
@pytest.mark.parametrize("size", [1e25, float("inf"), float("nan")])
def test_norms_when_derivatives_overflow_then_are_refused(size: float, rows_are_owners: bool) -> None:
    sizes = torch.ones(3, 4)
    sizes[1, 2] = size
    with pytest.raises(ModelError, match=r"overflow in float32.*dtype='float64'"):
        sketch_of(sizes, 48, rows_are_owners)


@pytest.mark.parametrize("rows_are_owners", [True, False])
@pytest.mark.parametrize("size", [0.0, 1e-22, 1e-20, 1e-17])
def test_norms_when_derivatives_vanish_then_are_finite(size: float, rows_are_owners: bool) -> None:
    sizes = torch.ones(3, 4)
    sizes[1, 2] = size
    norms = sketch_of(sizes, 48, rows_are_owners)
    assert isinstance(norms, Tensor) and norms.isfinite().all()
    assert sketch_of(torch.full((3, 4), size), 48, rows_are_owners) is not None


@pytest.mark.parametrize("width", [1, 2, 6, 7])
def test_norms_when_states_are_narrow_then_are_exact(width: int) -> None:
    norms = sketch_of(torch.ones(2, 3), width, True, rtol=1e-6)
    expected = torch.randn(2, 3, 3, width, generator=torch.Generator().manual_seed(0)).square().sum((-2, -1)).sqrt()
    torch.testing.assert_close(norms, expected)
