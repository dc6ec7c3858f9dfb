"""The fingerprint of a model changes with whatever could change its passes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.families import BY_NAME
from thalweg.capture.attention import adding_leaves, intercepted
from thalweg.capture.fingerprint import fingerprint
from thalweg.capture.observe import watch

LAYER = "bert.encoder.layer.0"


def edit_weight(model: Any) -> None:
    with torch.no_grad():
        model.get_parameter(f"{LAYER}.output.dense.bias").add_(1)


def replace_forward(model: Any) -> None:
    module = model.get_submodule(LAYER)
    forward = module.forward
    module.forward = lambda *args, **kwargs: forward(*args, **kwargs)


CHANGES: dict[str, Callable[[Any], object]] = {
    "hook": lambda model: model.get_submodule(LAYER).register_forward_hook(lambda *_: None),
    "pre_hook": lambda model: model.get_submodule(LAYER).register_forward_pre_hook(lambda *_: None),
    "weight": edit_weight,
    "new_weight": lambda model: setattr(
        model.get_submodule(f"{LAYER}.output.dense"), "bias", torch.nn.Parameter(torch.zeros(32))
    ),
    "forward": replace_forward,
    "module": lambda model: setattr(model.get_submodule(LAYER), "output", torch.nn.Identity()),
    "config": lambda model: setattr(model.config, "layer_norm_eps", 0.1),
    "implementation": lambda model: model.set_attn_implementation("eager"),
    "adapters": lambda model: setattr(model.get_submodule(LAYER), "active_adapters", ["other"]),
    "switch": lambda model: setattr(model.get_submodule(LAYER), "adapter_enabled", True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_when_the_model_changes_then_differs(change: str) -> None:
    model = BY_NAME["bert"].build()
    before = fingerprint(model)
    assert fingerprint(model) == before
    CHANGES[change](model)
    assert fingerprint(model) != before


def test_fingerprint_when_another_thread_captures_then_stays() -> None:
    model, inputs = BY_NAME["bert"].build(), BY_NAME["bert"].inputs(1, 6)
    before, during = fingerprint(model), []
    watch(model, inputs, handle=lambda call: during.append(fingerprint(model)) or call.run())
    assert during == [before] * 3


def test_fingerprint_when_a_pass_runs_or_is_intercepted_then_stays() -> None:
    model, inputs = BY_NAME["bert"].build(), BY_NAME["bert"].inputs(1, 6)
    before = fingerprint(model)
    model(**inputs)
    with intercepted(model, adding_leaves()[0]):
        assert fingerprint(model) == before  # another thread may be capturing
    assert fingerprint(model) == before
