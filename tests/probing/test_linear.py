"""Linear maps from sums: the same as least squares on all tokens at once."""

import torch
from torch import Tensor

from thalweg.probing.linear import RIDGE_STRENGTHS, Moments, fit_ridge, regression_target, squared_error
from thalweg.probing.search import Nearest, similarity


def data(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 6, generator=generator, dtype=torch.float64) + 1
    truth = torch.randn(6, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return inputs, inputs @ truth + 0.3 * torch.randn(count, 4, generator=generator, dtype=torch.float64) - 2


def sums(inputs: Tensor, wanted: Tensor, step: int) -> Moments:
    moments = Moments.empty(inputs.shape[1], 1, wanted.shape[1])
    for batch, targets in zip(inputs.split(step), wanted.split(step), strict=True):
        moments.add(batch, targets[None])
    return moments


def strict_rate(estimates: Tensor, wanted: Tensor, metric: str = "cosine", size: int = 10) -> float:
    """The share of tokens recovered among `size` candidates."""
    hits = []
    for batch, candidates in zip(estimates.split(size), wanted.split(size), strict=True):
        near, slack = similarity(metric, batch, candidates)  # pyright: ignore[reportArgumentType]
        hits.append(Nearest.of(near, slack, torch.eye(len(near), dtype=torch.bool)).hits)
    return float(torch.cat(hits).mean())


def test_sums_when_streamed_then_give_the_least_squares_solution_of_all_at_once() -> None:
    inputs, wanted = data(200)
    other, other_wanted = data(100, seed=1)
    ((linear, strength),) = fit_ridge(sums(inputs, wanted, 7), sums(other, other_wanted, 100))
    padded = torch.cat([inputs, torch.ones(200, 1, dtype=torch.float64)], 1)
    expected = torch.linalg.lstsq(padded, wanted).solution
    assert strength in RIDGE_STRENGTHS
    torch.testing.assert_close(linear.weight.double(), expected[:-1], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(linear.bias.double(), expected[-1], atol=1e-3, rtol=1e-3)


def test_ridge_when_fitted_then_has_the_best_strength_on_validation() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, wanted = data(9)  # so few tokens that shrinkage helps
    wanted = wanted + 4 * torch.randn(wanted.shape, generator=generator, dtype=torch.float64)
    other, other_wanted = data(300, seed=1)
    ((linear, strength),) = fit_ridge(sums(inputs, wanted, 9), sums(other, other_wanted, 300))
    centred, centred_targets = inputs - inputs.mean(0), wanted - wanted.mean(0)
    covariance = centred.mT @ centred / 9
    losses = {}
    for trial in RIDGE_STRENGTHS:
        ridge = trial * covariance.diagonal().mean() * torch.eye(6, dtype=torch.float64)
        weight = torch.linalg.solve(covariance + ridge, centred.mT @ centred_targets / 9)
        estimates = (other - inputs.mean(0)) @ weight + wanted.mean(0)
        losses[trial] = float((estimates - other_wanted).square().sum())
        if trial == strength:
            torch.testing.assert_close(linear.weight.double(), weight, atol=1e-4, rtol=1e-4)
    assert strength == min(losses, key=lambda trial: losses[trial])


def test_loss_when_computed_from_sums_then_is_that_of_the_tokens() -> None:
    inputs, wanted = data(50)
    solution = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    padded = torch.cat([inputs, torch.ones(50, 1, dtype=torch.float64)], 1)
    direct = float((padded @ solution - wanted).square().sum())
    assert abs(squared_error(solution, sums(inputs, wanted, 11), 0) / direct - 1) < 1e-12


def test_memory_when_more_tokens_are_added_then_does_not_grow() -> None:
    moments = Moments.empty(6, 1, 4)
    sizes = set()
    for seed in range(5):
        inputs, wanted = data(100, seed)
        moments.add(inputs, wanted[None])
        sizes.add(sum(tensor.untyped_storage().nbytes() for tensor in vars(moments).values()))
    assert sizes == {8 * (7 * 7 + 7 * 4 + 1)}
    assert moments.count == 500


def test_rotated_copies_when_probed_then_linear_recovers_them_and_identity_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(600, 16, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(16, 16, generator=generator, dtype=torch.float64)).Q
    inputs = wanted @ rotation
    for metric in ("cosine", "l2"):
        goal = regression_target(metric, wanted)
        ((linear, _),) = fit_ridge(sums(inputs[:300], goal[:300], 50), sums(inputs[300:400], goal[300:400], 50))
        assert strict_rate(linear(inputs[400:]), wanted[400:], metric) == 1.0
        assert strict_rate(inputs[400:], wanted[400:], metric) < 0.3


def test_states_when_scaled_then_cosine_is_untouched_and_l2_is_not() -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(200, 16, generator=generator, dtype=torch.float64)
    inputs = wanted + 0.8 * torch.randn(200, 16, generator=generator, dtype=torch.float64)
    factors = torch.logspace(-3, 3, 200, dtype=torch.float64)[torch.randperm(200, generator=generator)]
    scaled = factors[:, None] * inputs
    assert strict_rate(scaled, wanted) == strict_rate(inputs, wanted)
    assert strict_rate(scaled, wanted, "l2") < strict_rate(inputs, wanted, "l2") - 0.1


def test_permuted_targets_when_learnt_then_give_chance() -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(4000, 16, generator=generator, dtype=torch.float64)
    inputs, shuffled = wanted.clone(), wanted[torch.randperm(4000, generator=generator)]
    for metric in ("cosine", "l2"):
        goal = regression_target(metric, shuffled)
        ((linear, _),) = fit_ridge(sums(inputs[:2000], goal[:2000], 500), sums(inputs[2000:3000], goal[2000:3000], 500))
        assert abs(strict_rate(linear(inputs[3000:]), shuffled[3000:], metric) - 0.1) < 0.04
