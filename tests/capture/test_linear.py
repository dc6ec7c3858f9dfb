"""Affine maps read from modules."""

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from thalweg.capture.linear import Affine, as_affine, read_affine

CPU = torch.device("cpu")


class Adapted(nn.Module):
    """A linear layer plus a low-rank update, as adapters have it: no weight of its own is the whole map."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.down, self.up = nn.Linear(4, 1, bias=False), nn.Linear(1, 3)

    def forward(self, state: Tensor) -> Tensor:
        return state @ self.weight.T + self.up(self.down(state))


@pytest.mark.parametrize("module", [nn.Linear(4, 3), nn.Linear(4, 3, bias=False), Conv1D(3, 4), Adapted()])
def test_affine_when_read_from_a_module_then_maps_like_it(module: nn.Module) -> None:
    torch.manual_seed(0)
    rows = torch.randn(5, 4)
    affine = as_affine(module, torch.float32, CPU)
    image = affine.linear(rows) + (0 if affine.bias is None else affine.bias)
    torch.testing.assert_close(image, module(rows).detach())
    assert not affine.weight.requires_grad


def test_weight_when_stored_then_is_not_copied() -> None:
    module = nn.Linear(4, 3)
    weight, bias = read_affine(module, 4, torch.float32, CPU)
    assert weight.data_ptr() == module.weight.data_ptr()
    assert bias is not None and bias.data_ptr() == module.bias.data_ptr()


def test_affine_when_transposed_then_is_the_adjoint() -> None:
    affine = Affine(torch.tensor([[1.0, 2.0], [0.0, 3.0]]), None)
    assert affine.linear(torch.tensor([1.0, 1.0])).tolist() == [1.0, 5.0]
    assert affine.transposed(torch.tensor([1.0, 1.0])).tolist() == [3.0, 3.0]
