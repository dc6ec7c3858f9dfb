"""The attention layer: against torch's own, against the literal formula, and against known bugs."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from thalweg.encoders import MultiheadAttention
from thalweg.errors import InputError

WIDTH, HEADS, TOKENS, BATCH = 24, 4, 7, 3


def literal(layer: MultiheadAttention, x: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The formula in plain loops: [batch token width] to outputs and [batch head query key] weights."""
    batch, tokens, _ = x.shape
    outputs, maps = torch.zeros_like(x), torch.zeros(batch, layer.num_heads, tokens, tokens, dtype=x.dtype)
    k, v = layer.key_size, layer.value_size
    for b in range(batch):
        head_outputs = []
        for h in range(layer.num_heads):
            rows = {"q": slice(h * k, (h + 1) * k), "k": slice(h * k, (h + 1) * k), "v": slice(h * v, (h + 1) * v)}
            projected = {}
            for name, own in rows.items():
                project = getattr(layer, f"{name}_proj")
                projected[name] = torch.stack(
                    [project.weight[own] @ x[b, t] + project.bias[own] for t in range(tokens)]
                )
            for i in range(tokens):
                seen = [j for j in range(tokens) if hidden is None or not hidden[b, i, j]]
                logits = torch.stack([projected["q"][i] @ projected["k"][j] / k**0.5 for j in seen])
                for j, weight in zip(seen, logits.exp() / logits.exp().sum(), strict=True):
                    maps[b, h, i, j] = weight
            mixed = torch.zeros(tokens, v, dtype=x.dtype)
            for i, j in itertools.product(range(tokens), range(tokens)):
                mixed[i] += maps[b, h, i, j] * projected["v"][j]
            head_outputs.append(mixed)
        for i in range(tokens):
            if layer.combine == "con":
                combined = torch.cat([output[i] for output in head_outputs])
            else:
                combined = head_outputs[0][i].clone()
                for output in head_outputs[1:]:
                    combined = combined + output[i]
            outputs[b, i] = layer.out_proj.weight @ combined + layer.out_proj.bias
    return outputs, maps


def randomised(layer: nn.Module, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return layer.eval()


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def masks() -> dict[str, dict[str, Tensor]]:
    padding = torch.zeros(BATCH, TOKENS, dtype=torch.bool)
    padding[1, 4:] = padding[2, 2:] = True
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    per_head = numbers(BATCH * HEADS, TOKENS, TOKENS, seed=3)
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "causal": {"attn_mask": causal},
        "additive": {"attn_mask": numbers(TOKENS, TOKENS, seed=2)},
        "per head": {"attn_mask": per_head},
        "hidden per head": {"attn_mask": (per_head > 1) & ~torch.eye(TOKENS, dtype=torch.bool)},
        "both": {"attn_mask": causal, "key_padding_mask": padding},
        "additive padding": {"key_padding_mask": torch.zeros(BATCH, TOKENS).masked_fill(padding, -torch.inf)},
    }


@pytest.mark.parametrize("mask", masks())
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_when_sizes_are_those_of_torch_then_computes_the_same(
    mask: str, batch_first: bool, need_weights: bool
) -> None:
    theirs = randomised(nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first))
    ours = MultiheadAttention.from_torch(theirs)
    x = numbers(BATCH, TOKENS, WIDTH) if batch_first else numbers(TOKENS, BATCH, WIDTH)
    for average in (True, False):
        options = {**masks()[mask], "need_weights": need_weights, "average_attn_weights": average}
        expected, weights = theirs(x, x, x, **options)
        output, own_weights = ours(x, x, x, **options)
        torch.testing.assert_close(output, expected)
        assert (own_weights is None) == (weights is None)
        if weights is not None:
            torch.testing.assert_close(own_weights, weights)


def test_attention_when_unbatched_or_cross_then_computes_the_same_as_torch() -> None:
    theirs = randomised(nn.MultiheadAttention(WIDTH, HEADS))
    ours = MultiheadAttention.from_torch(theirs)
    query, key, value = (numbers(n, WIDTH, seed=n) for n in (5, 8, 9))
    value = value[:8]
    padding = torch.tensor([False] * 6 + [True] * 2)
    for own, expected in zip(ours(query, key, value, padding), theirs(query, key, value, padding), strict=True):
        torch.testing.assert_close(own, expected)


@pytest.mark.parametrize("bias", [True, False])
def test_attention_when_trained_then_gradients_are_those_of_torch(bias: bool) -> None:
    theirs = randomised(nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True)).double()
    ours = MultiheadAttention.from_torch(theirs)
    x = numbers(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    for layer in (theirs, ours):
        layer(x, x, x)[0].square().sum().backward()
    gradients: list[Any] = [project.weight.grad for project in (ours.q_proj, ours.k_proj, ours.v_proj)]
    joined = torch.cat(gradients)
    torch.testing.assert_close(joined, theirs.in_proj_weight.grad)
    torch.testing.assert_close(ours.out_proj.weight.grad, theirs.out_proj.weight.grad)


@pytest.mark.parametrize(("key_size", "value_size"), [(1, 5), (3, 24), (9, 2), (30, 1)])
@pytest.mark.parametrize("combine", ["con", "add"])
def test_attention_when_sizes_are_free_then_equals_the_formula(combine: Any, key_size: int, value_size: int) -> None:
    layer = MultiheadAttention(
        WIDTH, HEADS, batch_first=True, key_size=key_size, value_size=value_size, combine=combine
    ).double()
    randomised(layer)
    x = numbers(2, 5, WIDTH, dtype=torch.float64)
    hidden = torch.zeros(2, 5, 5, dtype=torch.bool)
    hidden[1, :, 3:] = True
    expected, maps = literal(layer, x, hidden)
    for need_weights in (True, False):
        output, weights = layer(
            x, x, x, key_padding_mask=hidden[:, 0], need_weights=need_weights, average_attn_weights=False
        )
        torch.testing.assert_close(output, expected)
        if need_weights:
            torch.testing.assert_close(weights, maps)


def test_add_when_heads_are_summed_then_channels_within_a_head_are_not() -> None:
    """The published code sums neighbouring channels inside each head, which leaves width / heads value dimensions."""
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    queries, keys, values = layer.split(x, x, x)
    mixed = (queries * layer.scaling @ keys.mT).softmax(-1) @ values  # [1 head token value_size]
    torch.testing.assert_close(layer(x, x, x)[0], layer.out_proj(mixed.sum(1)))
    pooled = mixed.transpose(1, 2).flatten(-2).unflatten(-1, (WIDTH, HEADS)).sum(-1)
    assert not torch.allclose(layer(x, x, x)[0], layer.out_proj(pooled), atol=1e-2)


@pytest.mark.parametrize("combine", ["con", "add"])
def test_output_when_a_token_changes_then_changes_unless_the_token_is_padding(combine: Any) -> None:
    """The published code hides the real tokens instead, and mixes up the masks of different examples."""
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, key_size=2, combine=combine))
    x = numbers(BATCH, TOKENS, WIDTH)
    padding = masks()["padding"]["key_padding_mask"]
    before = layer(x, x, x, key_padding_mask=padding)[0]
    for example, token in itertools.product(range(BATCH), range(TOKENS)):
        changed = x.clone()
        changed[example, token] += 1
        moved = (layer(changed, changed, changed, key_padding_mask=padding)[0] - before).abs().amax(-1) > 1e-6
        others = [t for t in range(TOKENS) if t != token]
        assert bool(moved[example, others].all()) == (not padding[example, token])
        assert not moved[[b for b in range(BATCH) if b != example]].any()


def test_scaling_when_values_are_wide_then_is_by_the_key_size() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, key_size=4, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    queries, keys, _ = layer.split(x, x, x)
    weights = layer(x, x, x, average_attn_weights=False)[1]
    torch.testing.assert_close(weights, (queries @ keys.mT / 2).softmax(-1))


def test_weights_when_training_then_are_those_before_dropout() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, dropout=0.5, batch_first=True))
    x = numbers(1, TOKENS, WIDTH)
    expected = layer(x, x, x)
    output, weights = layer.train()(x, x, x)
    torch.testing.assert_close(weights, expected[1])
    assert not torch.allclose(output, expected[0])


def test_query_when_all_keys_are_hidden_then_is_zero_with_finite_gradients() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True))
    x = numbers(1, TOKENS, WIDTH).requires_grad_()
    mask = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
    mask[2] = True
    for need_weights in (True, False):
        output, weights = layer(x, x, x, attn_mask=mask, need_weights=need_weights)
        torch.testing.assert_close(output[0, 2], layer.out_proj.bias)
        assert weights is None or not weights[0, 2].any()
        (gradient,) = torch.autograd.grad(output.sum(), x)
        assert gradient.isfinite().all()


def test_causal_when_set_then_later_tokens_are_hidden() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, key_size=3, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    causal = masks()["causal"]["attn_mask"]
    torch.testing.assert_close(layer(x, x, x, is_causal=True), layer(x, x, x, attn_mask=causal))
    assert not layer(x, x, x, is_causal=True)[1].triu(1).any()


def test_attention_when_in_bfloat16_then_is_close_to_float32() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, key_size=3, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    expected = layer(x, x, x)[0]
    output = layer.bfloat16()(x.bfloat16(), x.bfloat16(), x.bfloat16())[0]
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("sizes", "fact"),
    [
        ({"value_size": 25}, "at most the width 24, got 25"),
        ({"key_size": 0}, "key_size .*at least 1, got 0"),
        ({"key_size": 2.5}, r"key_size .*integer .*got 2\.5"),
        ({"combine": "sum"}, "'con'.*got 'sum'"),
        ({"num_heads": 5}, "24 .*5 heads"),
        ({"num_heads": 0}, "heads .*at least 1, got 0"),
        ({"num_heads": 5, "key_size": 3}, "24 .*5 heads"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_sizes_when_inconsistent_then_are_refused_with_their_value(sizes: dict[str, Any], fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        MultiheadAttention(**{"embed_dim": WIDTH, "num_heads": HEADS, **sizes})


def test_sizes_when_explicit_then_heads_need_not_divide_the_width() -> None:
    layer = MultiheadAttention(WIDTH, 5, key_size=3, combine="add", batch_first=True)
    assert layer(*(numbers(1, 4, WIDTH),) * 3)[0].shape == (1, 4, WIDTH)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"attn_mask": torch.zeros(3, 3)}, r"attn_mask .*\(3, 3\)"),
        ({"key_padding_mask": torch.zeros(BATCH, TOKENS + 1)}, r"key_padding_mask .*\(3, 8\)"),
        ({"attn_mask": torch.zeros(TOKENS, TOKENS, dtype=torch.int64)}, r"attn_mask .*torch\.int64"),
    ],
)
def test_masks_when_shape_or_type_is_wrong_then_are_refused(options: dict[str, Tensor], fact: str) -> None:
    layer = MultiheadAttention(WIDTH, HEADS, batch_first=True)
    with pytest.raises(InputError, match=fact):
        layer(*(numbers(BATCH, TOKENS, WIDTH),) * 3, **options)


def test_inputs_when_shapes_disagree_then_are_refused() -> None:
    layer = MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = numbers(BATCH, TOKENS, WIDTH)
    for wrong in ((x, x, x[:, :-1]), (x[..., :-1], x, x), (x[:1], x, x)):
        with pytest.raises(InputError, match="shapes"):
            layer(*wrong)


def test_from_torch_when_options_are_unsupported_then_is_refused() -> None:
    others: tuple[dict[str, Any], ...] = ({"kdim": 8}, {"add_bias_kv": True}, {"add_zero_attn": True})
    for options in others:
        with pytest.raises(InputError, match="not supported"):
            MultiheadAttention.from_torch(nn.MultiheadAttention(WIDTH, HEADS, **options))
