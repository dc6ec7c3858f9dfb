"""Multi-head attention with free key and value sizes, whose heads are concatenated or added.

The output of a head determines its attention weights as long as a text has no more tokens than values have dimensions
(plus one, since rows sum to one). Standard layers tie the value size to width / heads. Here keys may be small and
values as wide as the model; heads are then added instead of concatenated (Bhardwaj et al. 2021).

    con:  out = [A_1 V_1, …, A_H V_H] W_O + b,   W_O: H·value_size × width
    add:  out = (A_1 V_1 + … + A_H V_H) W_O + b,  W_O: value_size × width
    A_h = softmax(Q_h K_hᵀ / √key_size + mask)
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from thalweg.errors import InputError

Combine = Literal["con", "add"]


def head_sizes(width: int, heads: int, key_size: int | None, value_size: int | None, combine: str) -> tuple[int, int]:
    """Check the sizes of a layer and return (key size, value size) of each head, with defaults filled in."""
    if combine not in ("con", "add"):
        raise InputError(f"combine must be 'con' (concatenate heads) or 'add' (add heads), got {combine!r}")
    sizes = {"width": width, "heads": heads, "key_size": key_size, "value_size": value_size}
    for name, size in sizes.items():
        if size is not None:
            check_integer(name, size)
    if width % heads and (key_size is None or (value_size is None and combine == "con")):
        raise InputError(
            f"width {width} is not divisible by {heads} heads; set key_size and value_size, or change heads"
        )
    key_size = width // heads if key_size is None else key_size
    if value_size is None:
        value_size = width if combine == "add" else width // heads
    if value_size > width:
        raise InputError(
            f"value_size must be at most the width {width}, got {value_size}: values with more dimensions than their "
            "inputs distinguish no more tokens"
        )
    return key_size, value_size


def check_integer(name: str, value: object, least: int = 1) -> None:
    """Raise unless the value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be an integer of at least {least}, got {value!r}")


class HeadProjections(nn.Module):
    """The linear maps into and out of the heads: all parameters of an attention layer."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        combine: Combine = "con",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= dropout <= 1:
            raise InputError(f"dropout must be between 0 and 1, got {dropout!r}")
        self.key_size, self.value_size = head_sizes(embed_dim, num_heads, key_size, value_size, combine)
        self.embed_dim, self.num_heads, self.combine, self.dropout = embed_dim, num_heads, combine, dropout
        self.scaling = self.key_size**-0.5
        self.q_proj = nn.Linear(embed_dim, num_heads * self.key_size, bias=bias)
        self.k_proj = nn.Linear(embed_dim, num_heads * self.key_size, bias=bias)
        self.v_proj = nn.Linear(embed_dim, num_heads * self.value_size, bias=bias)
        self.out_proj = nn.Linear(self.value_size * (num_heads if combine == "con" else 1), embed_dim, bias=bias)

    def extra_repr(self) -> str:
        return f"heads={self.num_heads}, key_size={self.key_size}, value_size={self.value_size}, {self.combine}"

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head, [batch head token size], from [batch token width]."""
        pairs = ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        queries, keys, values = (
            project(states).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for project, states in pairs
        )
        return queries, keys, values

    def join(self, mixed: Tensor) -> Tensor:
        """The layer's output, [batch token width], from the heads' outputs, [batch token head value_size]."""
        return self.out_proj(mixed.flatten(-2) if self.combine == "con" else mixed.sum(-2))


class MultiheadAttention(HeadProjections):
    """`torch.nn.MultiheadAttention` with free key and value sizes; with torch's sizes both compute the same.

    Boolean masks hide a key where True; float masks are added to the logits. Two differences: the returned weights are
    those before dropout, and a query that sees no key gets zeros instead of NaN.

    >>> import torch
    >>> layer = MultiheadAttention(32, 4, key_size=2, combine="add", batch_first=True)
    >>> x = torch.randn(1, 10, 32)
    >>> output, weights = layer(x, x, x)
    >>> layer.value_size, tuple(output.shape), tuple(weights.shape)
    (32, (1, 10, 32), (1, 10, 10))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        batch_first: bool = False,
        key_size: int | None = None,
        value_size: int | None = None,
        combine: Combine = "con",
    ) -> None:
        super().__init__(
            embed_dim,
            num_heads,
            key_size=key_size,
            value_size=value_size,
            combine=combine,
            dropout=dropout,
            bias=bias,
        )
        self.batch_first = batch_first
        for project in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(project.weight)
        for project in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            if project.bias is not None:
                nn.init.zeros_(project.bias)

    @classmethod
    def from_torch(cls, source: nn.MultiheadAttention) -> "MultiheadAttention":
        """Copy a `torch.nn.MultiheadAttention` into a layer that computes the same."""
        if source.in_proj_weight is None or source.bias_k is not None or source.add_zero_attn:
            raise InputError(
                "kdim, vdim, add_bias_kv and add_zero_attn of torch.nn.MultiheadAttention are not supported; expected "
                "queries, keys and values of the same width"
            )
        bias = source.in_proj_bias is not None
        layer = cls(source.embed_dim, source.num_heads, source.dropout, bias, batch_first=source.batch_first)
        layer.to(source.in_proj_weight)
        with torch.no_grad():
            projections = (layer.q_proj, layer.k_proj, layer.v_proj)
            for project, weight in zip(projections, source.in_proj_weight.chunk(3), strict=True):
                project.weight.copy_(weight)
            if source.in_proj_bias is not None:
                for project, offset in zip(projections, source.in_proj_bias.chunk(3), strict=True):
                    project.bias.copy_(offset)
            layer.out_proj.load_state_dict(source.out_proj.state_dict())
        return layer.train(source.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return (output, weights); weights are [batch query key], or [batch head query key] if not averaged.

        `is_causal` hides later keys in addition to the masks.
        """
        single = query.dim() == 2
        batch_axis = 0 if self.batch_first else 1
        if single:
            query, key, value = (states.unsqueeze(batch_axis) for states in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        if not self.batch_first:
            query, key, value = (states.transpose(0, 1) for states in (query, key, value))
        self._check(query, key, value)
        queries, keys, values = self.split(query, key, value)
        mask = self._mask(queries, keys, key_padding_mask, attn_mask, is_causal)
        dropped = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            mixed, weights = attend(queries, keys, values, mask, self.scaling, dropped)
        else:
            mixed = F.scaled_dot_product_attention(queries, keys, values, mask, dropped, scale=self.scaling)
        output = self.join(mixed.transpose(1, 2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        output = output if self.batch_first else output.transpose(0, 1)
        if single:
            output, weights = output.squeeze(batch_axis), None if weights is None else weights[0]
        return output, weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Raise unless each is [batch token width], with keys and values of the same tokens."""
        shapes = tuple(tuple(states.shape) for states in (query, key, value))
        fits = all(len(shape) == 3 and shape[-1] == self.embed_dim for shape in shapes)
        if not fits or shapes[1][:2] != shapes[2][:2] or shapes[0][0] != shapes[1][0]:
            raise InputError(
                f"query, key and value must be (batch, token, width) with width {self.embed_dim}, the same batch size, "
                f"and as many values as keys, got shapes {shapes}"
            )

    def _mask(
        self, queries: Tensor, keys: Tensor, padding: Tensor | None, mask: Tensor | None, causal: bool
    ) -> Tensor | None:
        """Combine all masks into one that is added to the logits, broadcast over [batch head query key]."""
        batch, heads, rows, _ = queries.shape
        columns = keys.shape[2]
        shapes = {(rows, columns): (1, 1), (batch * heads, rows, columns): (batch, heads)}
        masks = []
        if mask is not None:
            if tuple(mask.shape) not in shapes:
                raise InputError(
                    f"attn_mask must be (query, key) = {(rows, columns)} or (batch · heads, query, key) = "
                    f"{(batch * heads, rows, columns)}, got shape {tuple(mask.shape)}"
                )
            masks.append(_additive(mask, "attn_mask", queries).reshape(*shapes[tuple(mask.shape)], rows, columns))
        if padding is not None:
            if tuple(padding.shape) != (batch, columns):
                raise InputError(
                    f"key_padding_mask must be (batch, key) = {(batch, columns)}, got shape {tuple(padding.shape)}"
                )
            masks.append(_additive(padding, "key_padding_mask", queries)[:, None, None])
        if causal:
            later = torch.ones(rows, columns, dtype=torch.bool, device=queries.device).triu(1)
            masks.append(_additive(later, "is_causal", queries)[None, None])
        return sum(masks[1:], start=masks[0]) if masks else None


def _additive(mask: Tensor, name: str, like: Tensor) -> Tensor:
    """A mask to add to the logits: minus infinity where a boolean mask is True."""
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -torch.inf)
    if not mask.is_floating_point():
        raise InputError(
            f"{name} must be bool (True hides a key) or floating point (added to the logits), got {mask.dtype}"
        )
    return mask.to(like)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scaling: float, dropout: float
) -> tuple[Tensor, Tensor]:
    """(A V, A) with A = softmax(Q Kᵀ · scaling + mask) before dropout; rows without a visible key are zero."""
    logits = queries * scaling @ keys.mT
    if mask is None:
        weights = logits.softmax(-1)
    else:
        logits = logits + mask
        blind = (logits == -torch.inf).all(-1, keepdim=True)
        weights = logits.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return F.dropout(weights, dropout) @ values, weights
