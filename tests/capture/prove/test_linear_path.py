"""Linear paths: every piece is affine at its point, and the pieces together are the path."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from thalweg.capture.linear import Affine
from thalweg.capture.norm import NormSite
from thalweg.capture.prove.linear_path import LinearPath, Pool, Times, allowed_error, origin_slope, read_path
from thalweg.capture.sites import (
    AffineSite,
    BiasSite,
    ColumnsSite,
    CurveSite,
    GateSite,
    PoolSite,
    ScaleSite,
    Site,
)

WIDTH = 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.rms = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH, eps=1e-6)
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Hardtanh(-2.0, 0.5)  # ones become 0.5
        self.extra = nn.Parameter(torch.zeros(WIDTH))


def model() -> Model:
    torch.manual_seed(0)
    built = Model().double()
    for parameter in built.parameters():
        nn.init.normal_(parameter)
    return built.requires_grad_(False)


FIRST = AffineSite("first")


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        ((NormSite("norm", True, False),), lambda m, x: m.norm(x)),
        ((NormSite("rms", False, False), AffineSite("second")), lambda m, x: m.second(m.rms(x))),
        ((FIRST, CurveSite("gelu"), AffineSite("second")), lambda m, x: m.second(F.gelu(m.first(x)))),
        ((FIRST, BiasSite("extra")), lambda m, x: m.first(x) + m.extra),
        ((FIRST, ColumnsSite((2, 0))), lambda m, x: m.first(x)[:, [2, 0]]),
        ((ScaleSite("scale"), FIRST), lambda m, x: m.first(x / 2)),
        ((FIRST, GateSite("silu", (AffineSite("second"),))), lambda m, x: m.first(x) * F.silu(m.second(x))),
        ((FIRST, PoolSite(("last", 1))), lambda m, x: torch.cat([m.first(x)[-1], m.first(x)[1:].mean(0)])[None]),
    ],
    ids=["layer_norm", "rms_norm", "mlp", "bias", "columns", "scale", "gate", "pool"],
)
def test_path_when_taken_then_ends_where_the_model_does_and_parts_add_up(
    sites: tuple[Site, ...], expected: Callable[[Model, Tensor], Tensor]
) -> None:
    built = model()
    parts = torch.randn(3, 5, WIDTH, dtype=torch.float64)  # [token source width]
    start = parts.sum(1)
    pieces, end = read_path(built, sites, torch.float64, torch.device("cpu")).at(start)
    wanted = expected(built, start)
    torch.testing.assert_close(end, wanted, atol=1e-6, rtol=1e-6)

    biases = torch.zeros(len(parts), 1, WIDTH, dtype=torch.float64)
    image = torch.cat([parts, biases], 1)  # a last source that takes the biases
    for piece in pieces:
        image = piece.linear(image)
        if piece.bias is not None:
            image[:, -1] += piece.bias
    torch.testing.assert_close(image.sum(1), wanted, atol=1e-6, rtol=1e-6)

    slope = torch.randn_like(wanted)
    back = slope
    for piece in reversed(pieces):
        back = piece.transposed(back)
    torch.testing.assert_close((back * start).sum(), (slope * image[:, :-1].sum(1)).sum())


def test_piece_when_affine_then_takes_its_columns_and_part_of_the_bias() -> None:
    built = model()
    path = read_path(built, (FIRST, ColumnsSite((1,))), torch.float64, torch.device("cpu"))
    (piece,) = path.steps
    assert isinstance(piece, Affine)
    assert piece.weight.shape == (WIDTH, 1)
    assert piece.bias is not None
    assert piece.bias.tolist() == [float(built.first.bias[1])]


def test_empty_path_when_taken_then_stays_at_its_start() -> None:
    pieces, end = LinearPath(()).at(torch.ones(2, 3))
    assert pieces == []
    assert torch.equal(end, torch.ones(2, 3))


def test_slope_when_at_zero_then_is_that_of_a_nearby_point() -> None:
    point = torch.tensor([[-2.0, 0.0, 2.0]], dtype=torch.float64)
    assert origin_slope(F.relu, point).tolist() == [[0.0, 1.0, 1.0]]
    torch.testing.assert_close(origin_slope(torch.tanh, point)[0, 1], torch.tensor(1.0, dtype=torch.float64))


def test_times_and_pool_when_applied_then_multiply_and_average() -> None:
    parts = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # [token source width]
    assert Times(torch.tensor([[2.0, 0.0], [1.0, 1.0]])).linear(parts).tolist() == [[[2.0, 0.0]], [[3.0, 4.0]]]
    pool = Pool(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert pool.linear(parts).tolist() == [[[1.0, 2.0, 2.0, 3.0]]]
    assert pool.transposed(torch.tensor([[1.0, 0.0, 0.0, 2.0]])).tolist() == [[1.0, 1.0], [0.0, 1.0]]


def test_allowed_error_when_the_model_is_in_double_precision_then_is_that_of_float32() -> None:
    assert allowed_error(torch.float64, 8) == allowed_error(torch.float32, 8) < allowed_error(torch.bfloat16, 8)
