"""Encoder layers and stacks with this attention, following the conventions of `torch.nn.TransformerEncoder`."""

from copy import deepcopy
from typing import Literal

from torch import Tensor, nn
from transformers.activations import ACT2FN

from thalweg.encoders.attention import Combine, MultiheadAttention, check_integer
from thalweg.errors import InputError

Activation = Literal["relu", "gelu"]


class PostNorm(nn.Module):
    """The part of a layer after attention: x₁ = LN(x + attended), LN(x₁ + W₂ f(W₁ x₁))."""

    def __init__(self, width: int, inner: int, dropout: float, activation: str, eps: float) -> None:
        super().__init__()
        if activation not in ACT2FN:
            raise InputError(
                f"unknown activation {activation!r}; expected a name that transformers knows, such as 'relu' or 'gelu'"
            )
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.dropout, self.dropout1, self.dropout2 = (nn.Dropout(dropout) for _ in range(3))
        self.activation = ACT2FN[activation]

    def after(self, residual: Tensor, attended: Tensor) -> Tensor:
        """The layer's output, from its input and the output of attention."""
        state = self.norm1(residual + self.dropout1(attended))
        inner = self.dropout(self.activation(self.linear1(state)))
        return self.norm2(state + self.dropout2(self.linear2(inner)))


class TransformerEncoderLayer(PostNorm):
    """A post-norm `torch.nn.TransformerEncoderLayer` with free key and value sizes.

    >>> import torch
    >>> layer = TransformerEncoderLayer(32, 4, dim_feedforward=64, key_size=2, combine="add", batch_first=True)
    >>> tuple(layer(torch.randn(1, 10, 32)).shape)
    (1, 10, 32)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        combine: Combine = "con",
    ) -> None:
        super().__init__(d_model, dim_feedforward, dropout, activation, layer_norm_eps)
        self.self_attn = MultiheadAttention(
            d_model,
            nhead,
            dropout,
            batch_first=batch_first,
            key_size=key_size,
            value_size=value_size,
            combine=combine,
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        attended, _ = self.self_attn(
            src,
            src,
            src,
            key_padding_mask=src_key_padding_mask,
            need_weights=False,
            attn_mask=src_mask,
            is_causal=is_causal,
        )
        return self.after(src, attended)


class TransformerEncoder(nn.Module):
    """A stack of copies of one layer, with the same initial weights, like `torch.nn.TransformerEncoder`."""

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int) -> None:
        super().__init__()
        check_integer("num_layers", num_layers)
        self.layers = nn.ModuleList(deepcopy(encoder_layer) for _ in range(num_layers))

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src
