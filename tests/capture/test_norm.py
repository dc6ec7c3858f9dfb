"""Norms against hand-made numbers and torch's own modules."""

import pytest
import torch
from torch import nn

from thalweg.capture.norm import Norm, NormSite, find_norm

POINT = torch.tensor([[3.0, -3.0], [1.0, 7.0]])


def test_layer_norm_when_applied_then_is_centred_and_divided_by_its_deviation() -> None:
    norm = Norm(torch.tensor([2.0, 1.0]), torch.tensor([0.5, 0.0]), 0.0, centred=True)
    torch.testing.assert_close(norm.deviation(POINT), torch.tensor([[3.0], [3.0]]))
    assert norm.linear(POINT).tolist() == [[6.0, -3.0], [-6.0, 3.0]]
    torch.testing.assert_close(norm(POINT), torch.tensor([[2.5, -1.0], [-1.5, 1.0]]))


def test_rms_norm_when_applied_then_is_not_centred() -> None:
    norm = Norm(None, None, 0.0, centred=False)
    torch.testing.assert_close(norm.deviation(POINT), torch.tensor([[3.0], [5.0]]))
    torch.testing.assert_close(norm(POINT), torch.tensor([[1.0, -1.0], [0.2, 1.4]]))


def test_norm_when_split_into_parts_then_parts_and_bias_add_up() -> None:
    torch.manual_seed(0)
    norm = Norm(torch.randn(4), torch.randn(4), 1e-5, centred=True)
    parts = torch.randn(3, 4)
    point = parts.sum(0)
    assert norm.bias is not None
    torch.testing.assert_close((norm.linear(parts) / norm.deviation(point)).sum(0) + norm.bias, norm(point))


class GemmaNorm(nn.Module):
    """RMSNorm whose weight is stored as γ − 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(width)), 1e-6

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return state * (state.square().mean(-1, keepdim=True) + self.eps).rsqrt() * (1 + self.weight)


@pytest.mark.parametrize(
    ("module", "centred", "offset"),
    [(nn.LayerNorm(16), True, False), (nn.RMSNorm(16, eps=1e-6), False, False), (GemmaNorm(16), False, True)],
    ids=["layer_norm", "rms_norm", "offset"],
)
def test_find_norm_when_the_module_is_a_norm_then_its_kind_is_found(
    module: nn.Module, centred: bool, offset: bool
) -> None:
    torch.manual_seed(0)
    nn.init.normal_(module.get_parameter("weight"))
    rows = torch.randn(5, 16)
    with torch.no_grad():
        image = module(rows)
    site = find_norm("", module, rows, image, torch.finfo(torch.float32).eps)
    assert site == NormSite("", centred, offset)
    assert site is not None
    torch.testing.assert_close(site.read(module)(rows), image)


def test_find_norm_when_the_module_does_something_else_then_is_none() -> None:
    rows, precision = torch.randn(5, 16), torch.finfo(torch.float32).eps
    norm = nn.LayerNorm(16)
    with torch.no_grad():
        assert find_norm("", norm, rows, 1.01 * norm(rows), precision) is None
    assert find_norm("", nn.Identity(), rows, rows, precision) is None
