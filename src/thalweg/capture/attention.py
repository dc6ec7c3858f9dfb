"""Intercept the attention calls of a model: observe each call and decide what it returns.

transformers dispatches attention through one registry, by the implementation named in the model's config. Inside a
`with` block the config points to an implementation of ours, which still calls the model's own kernel. The config is
restored on exit, also after an exception.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from thalweg.errors import ModelError

PREFIX = "thalweg_"


@dataclass(frozen=True, eq=False)
class Call:
    """One batched call of an attention kernel; `run` returns the result of the model's own kernel."""

    module: nn.Module | None  # None, like query and key, if the model bypasses the registry
    query: Tensor | None  # [batch head query size]
    key: Tensor | None  # [batch kv_head key size]
    value: Tensor  # [batch kv_head key value_size]
    mask: Tensor | None
    options: dict[str, Any]
    implementation: str
    run: Callable[..., tuple[Tensor, Tensor | None]]
    weights: Tensor | None = None  # [batch head query key], if only they were seen

    @property
    def causal(self) -> bool:
        """Whether the kernel itself hides later keys: a flag tells it to, not the mask."""
        if self.implementation == "eager":
            return False
        causal = self.options.get("is_causal")
        if causal is None:
            causal = getattr(self.module, "is_causal", True)
        if self.implementation == "sdpa":
            alone = self.query is not None and self.query.shape[2] == 1
            return bool(causal) and self.mask is None and not alone
        return bool(causal)

    @property
    def window(self) -> int | None:
        """Distance from which the kernel itself hides keys; only flash kernels do so."""
        return self.options.get("sliding_window") if "flash" in self.implementation else None


Handler = Callable[[Call], tuple[Tensor, Tensor | None]]


def adding_leaves() -> tuple[Handler, list[Tensor]]:
    """A handler that adds a zero tensor to each kernel's result, and these zeros, to take gradients with respect to."""
    leaves: list[Tensor] = []

    def attend(call: Call) -> tuple[Tensor, Tensor | None]:
        output, weights = call.run()
        leaves.append(torch.zeros_like(output, requires_grad=True))
        return output + leaves[-1], weights

    return attend, leaves


_handler: ContextVar[Handler | None] = ContextVar("thalweg_attention_handler", default=None)
_lock = threading.Lock()
_switched: dict[int, tuple[PreTrainedConfig, str | None, int]] = {}  # id -> config, name, users


@contextmanager
def intercepted(model: nn.Module, handler: Handler) -> Iterator[None]:
    """Route every attention call that this thread makes on `model` through `handler`."""
    configs = configs_of(model)
    token = _handler.set(handler)
    entered: list[PreTrainedConfig] = []
    try:
        for config in configs:
            _switch(config)
            entered.append(config)
        yield
    finally:
        for config in reversed(entered):
            _restore(config)
        _handler.reset(token)


def configs_of(model: nn.Module) -> list[PreTrainedConfig]:
    """All configs of a model and of its parts."""
    configs: dict[int, PreTrainedConfig] = {}

    def add(config: object) -> None:
        if isinstance(config, PreTrainedConfig) and id(config) not in configs:
            configs[id(config)] = config
            for name in config.sub_configs:
                add(getattr(config, name, None))

    for module in model.modules():
        add(getattr(module, "config", None))
    return list(configs.values())


def _switch(config: PreTrainedConfig) -> None:
    """Point the config to our implementation; a config shared by concurrent captures is switched once."""
    with _lock:
        known = _switched.get(id(config))
        if known:
            _switched[id(config)] = (known[0], known[1], known[2] + 1)
            return
        original = config._attn_implementation_internal
        config._attn_implementation_internal = _register(original or "eager")
        _switched[id(config)] = (config, original, 1)


def _restore(config: PreTrainedConfig) -> None:
    with _lock:
        _, original, users = _switched.pop(id(config))
        if users > 1:
            _switched[id(config)] = (config, original, users - 1)
        else:
            config._attn_implementation_internal = original


def _register(implementation: str) -> str:
    name = PREFIX + implementation
    if implementation not in ALL_MASK_ATTENTION_FUNCTIONS:
        raise ModelError(
            f"the masks of the attention implementation {implementation!r} are not supported; "
            'load the model with attn_implementation="sdpa" or "eager"'
        )
    if name not in AttentionInterface._global_mapping:
        AttentionInterface.register(name, partial(_attention, implementation))
        AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[implementation])
    return name


def _attention(
    implementation: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    own = _own_kernel(module, implementation)
    run = partial(_answer, own, module, query, key, value, attention_mask, options)
    handler = _handler.get()
    if handler is None:
        return run()
    if attention_mask is not None and not isinstance(attention_mask, torch.Tensor):
        raise ModelError(
            f"{type(module).__name__} masks keys with a {type(attention_mask).__name__}, which is not supported; "
            'load the model with attn_implementation="sdpa" or "eager"'
        )
    return handler(Call(module, query, key, value, attention_mask, dict(options), implementation, run))


def _answer(
    kernel: Callable[..., tuple[Tensor, Tensor | None]],
    module: nn.Module,
    own_query: Tensor,
    own_key: Tensor,
    own_value: Tensor,
    mask: Any,
    options: dict[str, Any],
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Call the model's own kernel, with its own tensors unless others are passed in their place."""
    pairs = ((own_query, query), (own_key, key), (own_value, value))
    return kernel(module, *(own if other is None else other for own, other in pairs), mask, **options)


def _own_kernel(module: nn.Module, implementation: str) -> Callable[..., Any]:
    """The kernel that the model would have called, looked up where the file of its class looks it up."""
    for base in type(module).__mro__:
        space = vars(sys.modules.get(base.__module__, object())) if base is not object else {}
        if "ALL_ATTENTION_FUNCTIONS" in space:
            eager = space.get("eager_attention_forward")
            kernel = space["ALL_ATTENTION_FUNCTIONS"].get(implementation, eager)
            if kernel is not None:
                return kernel
    raise ModelError(
        f"{type(module).__module__}.{type(module).__name__} uses {implementation!r} attention, "
        "but its module does not define that kernel"
    )
