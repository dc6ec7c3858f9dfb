"""Linear maps from sums: the same as all at once, whatever the corpus is long."""

import torch
from torch import Tensor

from thalweg.probing.linear import STRENGTHS, Moments, fit, squared_error, target
from thalweg.probing.search import Nearest, similarity


def data(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    given = torch.randn(count, 6, generator=generator, dtype=torch.float64) + 1
    truth = torch.randn(6, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return given, given @ truth + 0.3 * torch.randn(count, 4, generator=generator, dtype=torch.float64) - 2


def sums(given: Tensor, wanted: Tensor, step: int) -> Moments:
    moments = Moments.empty(given.shape[1], 1, wanted.shape[1])
    for some, other in zip(given.split(step), wanted.split(step), strict=True):
        moments.add(some, other[None])
    return moments


def strict(found: Tensor, wanted: Tensor, metric: str = "cosine", size: int = 10) -> float:
    """How many are recovered among ten at a time."""
    hits = []
    for some, other in zip(found.split(size), wanted.split(size), strict=True):
        near, slack = similarity(metric, some, other)  # pyright: ignore[reportArgumentType]
        hits.append(Nearest.of(near, slack, torch.eye(len(near), dtype=torch.bool)).hits)
    return float(torch.cat(hits).mean())


def test_sums_when_streamed_then_give_the_least_squares_solution_of_all_at_once() -> None:
    given, wanted = data(200)
    other, other_wanted = data(100, seed=1)
    ((linear, strength),) = fit(sums(given, wanted, 7), sums(other, other_wanted, 100))
    ones = torch.cat([given, torch.ones(200, 1, dtype=torch.float64)], 1)
    expected = torch.linalg.lstsq(ones, wanted).solution
    assert strength in STRENGTHS
    torch.testing.assert_close(linear.weight.double(), expected[:-1], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(linear.bias.double(), expected[-1], atol=1e-3, rtol=1e-3)


def test_ridge_when_strength_is_chosen_then_is_the_best_on_validation_by_direct_solution() -> None:
    generator = torch.Generator().manual_seed(0)
    given, wanted = data(9)  # fewer tokens than would do: shrinking helps
    wanted = wanted + 4 * torch.randn(wanted.shape, generator=generator, dtype=torch.float64)
    other, other_wanted = data(300, seed=1)
    ((linear, strength),) = fit(sums(given, wanted, 9), sums(other, other_wanted, 300))
    centred, middle = given - given.mean(0), wanted - wanted.mean(0)
    covariance = centred.mT @ centred / 9
    losses = {}
    for one in STRENGTHS:
        ridge = one * covariance.diagonal().mean() * torch.eye(6, dtype=torch.float64)
        weight = torch.linalg.solve(covariance + ridge, centred.mT @ middle / 9)
        made = (other - given.mean(0)) @ weight + wanted.mean(0)
        losses[one] = float((made - other_wanted).square().sum())
        if one == strength:
            torch.testing.assert_close(linear.weight.double(), weight, atol=1e-4, rtol=1e-4)
    assert strength == min(losses, key=lambda one: losses[one])


def test_loss_when_computed_from_sums_then_is_that_of_the_tokens() -> None:
    given, wanted = data(50)
    solution = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    ones = torch.cat([given, torch.ones(50, 1, dtype=torch.float64)], 1)
    direct = float((ones @ solution - wanted).square().sum())
    assert abs(squared_error(solution, sums(given, wanted, 11), 0) / direct - 1) < 1e-12


def test_memory_when_more_tokens_are_added_then_does_not_grow() -> None:
    moments = Moments.empty(6, 1, 4)
    sizes = set()
    for seed in range(5):
        given, wanted = data(100, seed)
        moments.add(given, wanted[None])
        sizes.add(sum(tensor.untyped_storage().nbytes() for tensor in vars(moments).values()))
    assert sizes == {8 * (7 * 7 + 7 * 4 + 1)}
    assert moments.count == 500


def test_rotated_copies_when_asked_for_then_linear_recovers_them_and_identity_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(600, 16, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(16, 16, generator=generator, dtype=torch.float64)).Q
    given = wanted @ rotation
    for metric in ("cosine", "l2"):
        aim = target(metric, wanted)
        ((linear, _),) = fit(sums(given[:300], aim[:300], 50), sums(given[300:400], aim[300:400], 50))
        assert strict(linear(given[400:]), wanted[400:], metric) == 1.0
        assert strict(given[400:], wanted[400:], metric) < 0.3


def test_states_when_scaled_then_cosine_is_untouched_and_l2_is_not() -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(200, 16, generator=generator, dtype=torch.float64)
    given = wanted + 0.8 * torch.randn(200, 16, generator=generator, dtype=torch.float64)
    factors = torch.logspace(-3, 3, 200, dtype=torch.float64)[torch.randperm(200, generator=generator)]
    scaled = factors[:, None] * given
    assert strict(scaled, wanted) == strict(given, wanted)
    assert strict(scaled, wanted, "l2") < strict(given, wanted, "l2") - 0.1


def test_permuted_targets_when_learnt_then_give_chance() -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(4000, 16, generator=generator, dtype=torch.float64)
    given, shuffled = wanted.clone(), wanted[torch.randperm(4000, generator=generator)]
    for metric in ("cosine", "l2"):
        aim = target(metric, shuffled)
        ((linear, _),) = fit(sums(given[:2000], aim[:2000], 500), sums(given[2000:3000], aim[2000:3000], 500))
        assert abs(strict(linear(given[3000:]), shuffled[3000:], metric) - 0.1) < 0.04
