"""Stand between a model and its attention kernels: see each call, and decide what it returns.

transformers sends the attention of its models through one registry, by the name in the model's config.
For the time of a `with` block the model is switched to a name of ours that still calls the model's own
kernel. Everything is put back afterwards, whatever happened in between.
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
    """What a model asked its attention kernel, as a batch; `run` answers with the model's own kernel."""

    module: nn.Module | None  # None, and no query and key, where the model went round the registry
    query: Tensor | None  # [batch head query size]
    key: Tensor | None  # [batch kv_head key size]
    value: Tensor  # [batch kv_head key value_size]
    mask: Tensor | None
    options: dict[str, Any]
    implementation: str
    run: Callable[..., tuple[Tensor, Tensor | None]]
    weights: Tensor | None = None  # [batch head query key], where only they were seen

    @property
    def causal(self) -> bool:
        """Whether the kernel itself hides later keys (no mask says so, only a flag)."""
        if self.implementation == "eager":
            return False
        asked = self.options.get("is_causal")
        causal = getattr(self.module, "is_causal", True) if asked is None else asked
        if self.implementation == "sdpa":
            alone = self.query is not None and self.query.shape[2] == 1
            return bool(causal) and self.mask is None and not alone
        return bool(causal)

    @property
    def window(self) -> int | None:
        """Keys further back than this are hidden by the kernel itself; only flash kernels do that."""
        return self.options.get("sliding_window") if "flash" in self.implementation else None


Handler = Callable[[Call], tuple[Tensor, Tensor | None]]


def adding_leaves() -> tuple[Handler, list[Tensor]]:
    """A handler that adds a zero to each kernel's result, and these zeros: gradients can be asked for at them."""
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
    """Send every attention call that this thread makes on `model` through `handler`."""
    configs = _configs(model)
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


def _configs(model: nn.Module) -> list[PreTrainedConfig]:
    found: dict[int, PreTrainedConfig] = {}

    def add(config: object) -> None:
        if isinstance(config, PreTrainedConfig) and id(config) not in found:
            found[id(config)] = config
            for name in config.sub_configs:
                add(getattr(config, name, None))

    for module in model.modules():
        add(getattr(module, "config", None))
    return list(found.values())


def _switch(config: PreTrainedConfig) -> None:
    """Point the config at our name; a config shared by two captures at once is switched only once."""
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
            f"the model uses the attention implementation {implementation!r}, whose masks are unknown; "
            'load it with attn_implementation="sdpa" or "eager"'
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
            f"{type(module).__name__} hides keys with a {type(attention_mask).__name__}, which cannot "
            'be read; load the model with attn_implementation="sdpa" or "eager"'
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
    """What the model's own kernel returns, for its own tensors or for others in their place."""
    given = ((own_query, query), (own_key, key), (own_value, value))
    return kernel(module, *(own if other is None else other for own, other in given), mask, **options)


def _own_kernel(module: nn.Module, implementation: str) -> Callable[..., Any]:
    """The kernel the model would have called: from the registry and the file its class was written in."""
    for base in type(module).__mro__:
        space = vars(sys.modules.get(base.__module__, object())) if base is not object else {}
        if "ALL_ATTENTION_FUNCTIONS" in space:
            eager = space.get("eager_attention_forward")
            kernel = space["ALL_ATTENTION_FUNCTIONS"].get(implementation, eager)
            if kernel is not None:
                return kernel
    raise ModelError(
        f"{type(module).__module__}.{type(module).__name__} asks for {implementation!r} attention, "
        "but the file of its class does not say which function that is"
    )
