"""Working precision, relative errors, and tolerances."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def working(dtype: torch.dtype) -> torch.dtype:
    """The precision to compute in: float32 for half precision, otherwise the dtype itself."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def double(tensor: Tensor) -> Tensor:
    """The tensor in double precision on the CPU, without a copy if it is there already.

    For factorisations of small matrices, which other devices do slowly or not at all.
    """
    return tensor.detach().to("cpu", torch.float64)


def tolerance(dtype: torch.dtype, terms: int) -> float:
    """Largest relative error allowed between a sum of `terms` numbers and the model's own result.

    A kernel rounds its result to `dtype` once or twice, each time by at most half a unit, and accumulates in the
    working precision, where rounding errors grow with the square root of the number of terms. The largest error seen
    in half precision, over all model families of the tests, is 0.6 units: 1.5 leaves little room for a wrong formula.
    """
    rounding = 1.5 * torch.finfo(dtype).eps
    return rounding + 16 * torch.finfo(working(dtype)).eps * max(terms, 1) ** 0.5


def relative_error(actual: Float[Tensor, "token *rest"], expected: Float[Tensor, "token *rest"]) -> float:
    """Largest error of a token's vector, relative to the length of that vector.

    If the vector is nearly zero, the error is relative to a hundredth of the mean length instead.
    """
    return relative_errors(actual[None], expected[None], [len(actual)])[0]


def relative_errors(
    actual: Float[Tensor, "example token *rest"],
    expected: Float[Tensor, "example token *rest"],
    counts: Sequence[int],
) -> list[float]:
    """`relative_error` of each example of a batch, over its first `counts` tokens only."""
    if actual.numel() == 0:
        return [0.0] * len(actual)
    exact = working(torch.promote_types(actual.dtype, expected.dtype))
    wanted = expected.to(exact).flatten(2)
    real = torch.arange(actual.shape[1]) < torch.tensor(counts)[:, None]  # [example token]
    real = real.to(actual.device)
    length = torch.where(real, wanted.norm(dim=2), 0.0)
    floor = 0.01 * length.sum(1) / real.sum(1) + torch.finfo(exact).tiny
    error = torch.where(real, (actual.to(exact).flatten(2) - wanted).norm(dim=2), 0.0)
    return (error / length.clamp_min(floor[:, None])).amax(1).tolist()


def worst(errors: Iterable[float]) -> float:
    """The largest error, or NaN if any is NaN, which `max` would lose."""
    largest = 0.0
    for error in errors:
        if error != error:
            return error
        largest = max(largest, error)
    return largest
