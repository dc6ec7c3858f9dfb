"""Intercept attention of models that bypass the registry of transformers: a softmax followed by a product.

GPT-J, BLOOM, MPT, Falcon, DeBERTa-v2, MPNet and others call torch directly. Here torch's own functions are watched:
a fused attention call, or a softmax whose result is multiplied by values. In the second case the model's own weights
are kept, because what it added to its logits is unknown.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from thalweg.capture.attention import Call, Handler

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
PRODUCT = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm}


@contextmanager
def intercepted_functions(batch: int, handler: Handler) -> Iterator[None]:
    """Route every attention that this thread computes with torch functions through `handler`."""
    with _Watch(batch, handler):
        yield


class _Watch(TorchFunctionMode):
    def __init__(self, batch: int, handler: Handler) -> None:
        super().__init__()
        self.batch = batch
        self.handler = handler
        self.weights: Tensor | None = None  # the last softmax, until its product is seen

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._fused(*args, **kwargs)
        if func in PRODUCT and self.weights is not None and self._continues(args[0]):
            return self._product(func, *args, **kwargs)
        result = func(*args, **kwargs)
        if func in SOFTMAX and result.dim() >= 3:
            self.weights = result
        return result

    def _continues(self, left: Any) -> bool:
        """Whether `left` is the softmax, possibly reshaped, cast, or passed through inactive dropout."""
        weights = self.weights
        assert weights is not None
        return (
            isinstance(left, Tensor)
            and left.numel() == weights.numel()
            and left.shape[-2:] == weights.shape[-2:]
            and torch.equal(left.reshape(weights.shape), weights.to(left.dtype))
        )

    def _product(self, func: Callable[..., Tensor], left: Tensor, right: Tensor) -> Tensor:
        assert self.weights is not None
        batch = self.batch
        weights = self.weights.reshape(batch, -1, *self.weights.shape[-2:])  # [batch head query key]
        values = right.reshape(batch, -1, *right.shape[-2:])  # [batch kv_head key value_size]
        heads, self.weights = weights.shape[1], None

        def run(value: Tensor = values, **_: Any) -> tuple[Tensor, Tensor]:
            mixed = func(left, value.reshape(right.shape))
            return mixed.reshape(batch, heads, *mixed.shape[-2:]).transpose(1, 2), weights

        output, _ = self.handler(Call(None, None, None, values, None, {}, "eager", run, weights))
        mixed = output.transpose(1, 2)  # [batch head query value_size]
        return mixed.reshape(*left.shape[:-1], values.shape[-1])

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        *rest: Any,
        **options: Any,
    ) -> Tensor:
        named = dict(zip(("dropout_p", "is_causal", "scale", "enable_gqa"), rest, strict=False))
        options = {**named, **options}

        def run(query: Tensor = query, key: Tensor = key, value: Tensor = value) -> tuple[Tensor, None]:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask, **options)
            return mixed.transpose(1, 2), None

        settings = {"is_causal": options.get("is_causal", False), "scaling": options.get("scale")}
        call = Call(None, query, key, value, attn_mask, settings, "sdpa", run)
        return self.handler(call)[0].transpose(1, 2)
