"""Numbers in one place: the precision that is worked in, errors, and how large they may be."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def working(dtype: torch.dtype) -> torch.dtype:
    """Half precision is decomposed in float32; everything else as it is."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def double(tensor: Tensor) -> Tensor:
    """In double precision, on the CPU: for factorisations of small matrices, which devices do slowly or not at all.

    What is there already is not copied.
    """
    return tensor.detach().to("cpu", torch.float64)


def tolerance(dtype: torch.dtype, terms: int) -> float:
    """How far a sum of `terms` numbers may be from the model's own, relative to its size.

    A kernel rounds its result to `dtype` once or twice, each time by half a unit at most, and accumulates in the
    working precision, where rounding errors grow like the square root of the number of terms. In half precision
    0.6 units are seen over all families of the tests, so that 1.5 leaves little room for a wrong formula.
    """
    rounding = 1.5 * torch.finfo(dtype).eps
    return rounding + 16 * torch.finfo(working(dtype)).eps * max(terms, 1) ** 0.5


def relative_error(actual: Float[Tensor, "token *rest"], expected: Float[Tensor, "token *rest"]) -> float:
    """Largest error of a token's vector, relative to that vector's length.

    A token whose vector nearly vanishes is measured against a hundredth of the mean length instead.
    """
    return relative_errors(actual[None], expected[None], [len(actual)])[0]


def relative_errors(
    actual: Float[Tensor, "example token *rest"],
    expected: Float[Tensor, "example token *rest"],
    counts: Sequence[int],
) -> list[float]:
    """The same of each example of a batch, whose first tokens only are counted."""
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
    """The largest error; NaN if any is, which `max` would lose."""
    found = 0.0
    for error in errors:
        if error != error:
            return error
        found = max(found, error)
    return found
