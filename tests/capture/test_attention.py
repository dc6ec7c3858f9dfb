"""Interception of attention calls: what a call says about masks, and that the registry is left as it was."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import snapshot
from thalweg.capture.attention import PREFIX, Call, adding_leaves, intercepted


def call(implementation: str, **options: Any) -> Call:
    mask, queries = options.pop("mask", None), options.pop("queries", 3)
    query = torch.zeros(1, 1, queries, 2)
    return Call(None, query, query, query, mask, options, implementation, lambda: (query, None))


@pytest.mark.parametrize(
    ("example", "causal"),
    [
        (call("eager", is_causal=True), False),  # the eager kernel only obeys its mask
        (call("sdpa", is_causal=True), True),
        (call("sdpa", is_causal=False), False),
        (call("sdpa"), True),  # without a flag it is the module's, or True
        (call("sdpa", is_causal=True, mask=torch.zeros(1, 1, 3, 3)), False),
        (call("sdpa", is_causal=True, queries=1), False),
        (call("flash_attention_2", is_causal=True, mask=torch.ones(1, 3)), True),
    ],
)
def test_call_when_the_kernel_hides_later_keys_then_is_causal(example: Call, causal: bool) -> None:
    assert example.causal is causal


def test_window_when_the_kernel_is_not_a_flash_kernel_then_is_left_to_the_mask() -> None:
    assert call("flash_attention_2", sliding_window=4).window == 4
    assert call("sdpa", sliding_window=4).window is None


def test_handler_when_it_returns_something_else_then_the_model_continues_with_it() -> None:
    family = BY_NAME["bert"]
    model, inputs = family.build(), family.inputs(1, 5)
    before = snapshot(model)
    seen: list[Call] = []

    def nothing(call: Call) -> tuple[Tensor, Tensor | None]:
        seen.append(call)
        output, weights = call.run()
        return torch.zeros_like(output), weights

    with torch.no_grad():
        plain = model(**inputs).logits
        with intercepted(model, nothing):
            assert model.config._attn_implementation == f"{PREFIX}sdpa"
            changed = model(**inputs).logits
        assert torch.equal(model(**inputs).logits, plain)
    assert not torch.allclose(changed, plain)
    assert [call.implementation for call in seen] == ["sdpa"] * 3
    assert all(isinstance(call.module, nn.Module) for call in seen)
    assert snapshot(model) == before


def test_call_when_run_with_other_values_then_uses_them_in_place_of_its_own() -> None:
    family = BY_NAME["llama"]
    model = family.build()
    results: list[tuple[Tensor, Tensor]] = []

    def double(call: Call) -> tuple[Tensor, Tensor | None]:
        output, weights = call.run()
        results.append((output, call.run(value=2 * call.value)[0]))
        return output, weights

    with torch.no_grad(), intercepted(model, double):
        model(**family.inputs(1, 5))
    for output, doubled in results:
        torch.testing.assert_close(doubled, 2 * output)


def test_model_when_intercepted_twice_then_is_restored_at_the_outer_end() -> None:
    model = BY_NAME["bert"].build()
    attend, _ = adding_leaves()
    with intercepted(model, attend):
        with intercepted(model, attend):
            pass
        assert model.config._attn_implementation == f"{PREFIX}sdpa"
    assert model.config._attn_implementation == "sdpa"


def test_implementation_when_its_masks_are_unknown_then_is_refused_with_a_way_out() -> None:
    model = BY_NAME["bert"].build()
    model.config._attn_implementation_internal = "homemade"
    with pytest.raises(tw.ModelError, match=r"'homemade'.*sdpa"), intercepted(model, adding_leaves()[0]):
        pass
    assert model.config._attn_implementation_internal == "homemade"


def test_leaves_when_added_then_are_one_for_each_call_and_have_gradients() -> None:
    family = BY_NAME["bert"]
    model = family.build()
    attend, leaves = adding_leaves()
    with intercepted(model, attend):
        logits = model(**family.inputs(1, 5)).logits
    assert [tuple(leaf.shape) for leaf in leaves] == [(1, 5, 4, 8)] * 3
    assert all(bool(slope.any()) for slope in torch.autograd.grad(logits.sum(), leaves))
