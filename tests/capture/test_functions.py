"""Attention that is computed with torch functions, seen and replaced."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from thalweg.capture.attention import Call
from thalweg.capture.functions import intercepted_functions

BATCH, HEADS, COUNT, SIZE = 2, 3, 4, 5


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, BATCH, HEADS, COUNT, SIZE)
    return query, key, value


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (query @ key.mT).softmax(-1) @ value


def flattened(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """As BLOOM does it: heads are folded into the batch, and dropout lies between softmax and product."""
    weights = F.softmax(torch.bmm(query.flatten(0, 1), key.flatten(0, 1).mT), dim=-1)
    weights = F.dropout(weights, training=False)
    return torch.bmm(weights, value.flatten(0, 1)).unflatten(0, (BATCH, HEADS))


@pytest.mark.parametrize("attend", [by_hand, flattened])
def test_softmax_when_multiplied_by_values_then_is_a_call_with_weights(
    attend: Callable[..., Tensor],
) -> None:
    query, key, value = tensors()
    seen: list[Call] = []

    def handle(call: Call) -> tuple[Tensor, Tensor | None]:
        seen.append(call)
        return call.run()

    plain = attend(query, key, value)
    with intercepted_functions(BATCH, handle):
        watched = attend(query, key, value)
    assert torch.equal(watched, plain)
    (call,) = seen
    assert call.query is None and call.module is None
    assert call.weights is not None
    torch.testing.assert_close(call.weights, (query @ key.mT).softmax(-1))
    assert torch.equal(call.value, value)


def test_fused_call_when_seen_then_has_queries_keys_and_options() -> None:
    query, key, value = tensors()
    seen: list[Call] = []

    def handle(call: Call) -> tuple[Tensor, Tensor | None]:
        seen.append(call)
        return call.run()

    with intercepted_functions(BATCH, handle):
        watched = F.scaled_dot_product_attention(query, key, value, None, 0.0, True, scale=0.5)
    assert torch.equal(watched, F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.5))
    (call,) = seen
    assert call.query is query and call.key is key and call.value is value
    assert call.causal
    assert call.options["scaling"] == 0.5


@pytest.mark.parametrize("attend", [by_hand, flattened, F.scaled_dot_product_attention])
def test_handler_when_it_runs_with_other_values_then_they_are_mixed(attend: Callable[..., Tensor]) -> None:
    query, key, value = tensors()
    with intercepted_functions(BATCH, lambda call: call.run(value=3 * call.value)):
        watched = attend(query, key, value)
    torch.testing.assert_close(watched, 3 * attend(query, key, value))


def test_product_when_it_does_not_follow_a_softmax_then_is_no_call() -> None:
    query, key, value = tensors()

    def never(call: Call) -> tuple[Tensor, Tensor | None]:
        raise AssertionError

    with intercepted_functions(BATCH, never):
        torch.matmul(query, key.mT)
        torch.matmul(query, key.mT).softmax(-1).add(1)
        torch.randn(COUNT).softmax(0)  # one row: no attention has so few axes
        torch.matmul(key.mT, value)
