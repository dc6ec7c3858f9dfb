"""Chain the maps of all layers by multiplying them."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import LayerArray, Step


def rollout(steps: Sequence[Step], rows: Sequence[int]) -> Float[Tensor, "row source"]:
    """R = M_L · … · M_2 · M_1, the higher layer on the left: each path counts the product of its weights.

    Only the requested rows are carried down, which costs n² per row and layer. Abnar & Zuidema 2020, equation 1. In
    signed maps, contributions of opposite sign cancel.

    >>> import torch
    >>> up, down = torch.tensor([[1., 0.], [.5, .5]]), torch.tensor([[.2, .8], [0., 1.]])
    >>> rollout([down, up], [1])
    tensor([[0.1000, 0.9000]])
    """
    carried = steps[-1][list(rows)]  # [row source]
    for step in reversed(steps[:-1]):
        carried = carried @ step
    return carried


def cumulative(steps: LayerArray) -> LayerArray:
    """The product of all maps up to each layer: the shares of each input token in that layer."""
    layers = torch.from_numpy(steps.astype(np.float64))  # numpy's own threads would change the last digits
    products = [layers[0]]
    for layer in layers[1:]:
        products.append(layer @ products[-1])
    return torch.stack(products).numpy()
