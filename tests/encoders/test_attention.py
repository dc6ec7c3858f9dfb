"""The attention layer: against torch's own, against the formula written out, and against known faults."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from thalweg.encoders import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from thalweg.errors import InputError

WIDTH, HEADS, TOKENS, BATCH = 24, 4, 7, 3


def literal(layer: MultiheadAttention, x: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The formula, one number after the other: [batch token width] to outputs and [batch head query key] weights."""
    batch, tokens, _ = x.shape
    outputs, maps = torch.zeros_like(x), torch.zeros(batch, layer.num_heads, tokens, tokens, dtype=x.dtype)
    k, v = layer.key_size, layer.value_size
    for b in range(batch):
        written = []
        for h in range(layer.num_heads):
            rows = {"q": slice(h * k, (h + 1) * k), "k": slice(h * k, (h + 1) * k), "v": slice(h * v, (h + 1) * v)}
            made = {}
            for name, own in rows.items():
                project = getattr(layer, f"{name}_proj")
                made[name] = torch.stack([project.weight[own] @ x[b, t] + project.bias[own] for t in range(tokens)])
            for i in range(tokens):
                seen = [j for j in range(tokens) if hidden is None or not hidden[b, i, j]]
                logits = torch.stack([made["q"][i] @ made["k"][j] / k**0.5 for j in seen])
                for j, weight in zip(seen, logits.exp() / logits.exp().sum(), strict=True):
                    maps[b, h, i, j] = weight
            mixed = torch.zeros(tokens, v, dtype=x.dtype)
            for i, j in itertools.product(range(tokens), range(tokens)):
                mixed[i] += maps[b, h, i, j] * made["v"][j]
            written.append(mixed)
        for i in range(tokens):
            if layer.combine == "con":
                together = torch.cat([one[i] for one in written])
            else:
                together = written[0][i].clone()
                for one in written[1:]:
                    together = together + one[i]
            outputs[b, i] = layer.out_proj.weight @ together + layer.out_proj.bias
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
    each = numbers(BATCH * HEADS, TOKENS, TOKENS, seed=3)
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "causal": {"attn_mask": causal},
        "added": {"attn_mask": numbers(TOKENS, TOKENS, seed=2)},
        "each head its own": {"attn_mask": each},
        "each head hides": {"attn_mask": (each > 1) & ~torch.eye(TOKENS, dtype=torch.bool)},
        "both": {"attn_mask": causal, "key_padding_mask": padding},
        "padding that is added": {"key_padding_mask": torch.zeros(BATCH, TOKENS).masked_fill(padding, -torch.inf)},
    }


@pytest.mark.parametrize("mask", masks())
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_when_sizes_coincide_then_is_what_torch_computes(
    mask: str, batch_first: bool, need_weights: bool
) -> None:
    theirs = randomised(nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first))
    ours = MultiheadAttention.from_torch(theirs)
    x = numbers(BATCH, TOKENS, WIDTH) if batch_first else numbers(TOKENS, BATCH, WIDTH)
    for average in (True, False):
        options = {**masks()[mask], "need_weights": need_weights, "average_attn_weights": average}
        expected, weights = theirs(x, x, x, **options)
        output, found = ours(x, x, x, **options)
        torch.testing.assert_close(output, expected)
        assert (found is None) == (weights is None)
        if weights is not None:
            torch.testing.assert_close(found, weights)


def test_attention_when_unbatched_or_crossing_then_is_what_torch_computes() -> None:
    theirs = randomised(nn.MultiheadAttention(WIDTH, HEADS))
    ours = MultiheadAttention.from_torch(theirs)
    query, key, value = (numbers(n, WIDTH, seed=n) for n in (5, 8, 9))
    value = value[:8]
    padding = torch.tensor([False] * 6 + [True] * 2)
    for one, other in zip(ours(query, key, value, padding), theirs(query, key, value, padding), strict=True):
        torch.testing.assert_close(one, other)


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
def test_attention_when_sizes_are_free_then_is_the_formula(combine: Any, key_size: int, value_size: int) -> None:
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


def test_add_when_heads_are_summed_then_no_channels_of_one_head_are() -> None:
    """The public code sums neighbouring channels inside each head, which leaves a value of width / heads dimensions."""
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    queries, keys, values = layer.split(x, x, x)
    mixed = (queries * layer.scaling @ keys.mT).softmax(-1) @ values  # [1 head token value_size]
    torch.testing.assert_close(layer(x, x, x)[0], layer.out_proj(mixed.sum(1)))
    pooled = mixed.transpose(1, 2).flatten(-2).unflatten(-1, (WIDTH, HEADS)).sum(-1)
    assert not torch.allclose(layer(x, x, x)[0], layer.out_proj(pooled), atol=1e-2)


@pytest.mark.parametrize("combine", ["con", "add"])
def test_padding_when_its_tokens_change_then_nothing_does_and_otherwise_it_does(combine: Any) -> None:
    """The public code hides the real tokens instead, and mixes up whose mask is whose."""
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
    found = layer.train()(x, x, x)
    torch.testing.assert_close(found[1], expected[1])
    assert not torch.allclose(found[0], expected[0])


def test_query_when_everything_is_hidden_then_is_zero_with_gradients_that_are_numbers() -> None:
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


def test_causal_when_asked_for_then_later_tokens_are_hidden() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, key_size=3, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    causal = masks()["causal"]["attn_mask"]
    torch.testing.assert_close(layer(x, x, x, is_causal=True), layer(x, x, x, attn_mask=causal))
    assert not layer(x, x, x, is_causal=True)[1].triu(1).any()


def test_attention_when_in_bfloat16_then_is_near_the_same() -> None:
    layer = randomised(MultiheadAttention(WIDTH, HEADS, batch_first=True, key_size=3, combine="add"))
    x = numbers(1, TOKENS, WIDTH)
    expected = layer(x, x, x)[0]
    found = layer.bfloat16()(x.bfloat16(), x.bfloat16(), x.bfloat16())[0]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"value_size": 25}, "at most the width"),
        ({"key_size": 0}, "from 1"),
        ({"key_size": 2.5}, "from 1"),
        ({"combine": "sum"}, "'con'"),
        ({"num_heads": 5}, "do not divide"),
        ({"num_heads": 0}, "from 1"),
        ({"num_heads": 5, "key_size": 3}, "do not divide"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_sizes_when_they_do_not_fit_then_says_what_was_expected(sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        MultiheadAttention(**{"embed_dim": WIDTH, "num_heads": HEADS, **sizes})


def test_sizes_when_given_then_heads_need_not_divide_the_width() -> None:
    layer = MultiheadAttention(WIDTH, 5, key_size=3, combine="add", batch_first=True)
    assert layer(*(numbers(1, 4, WIDTH),) * 3)[0].shape == (1, 4, WIDTH)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attn_mask": torch.zeros(3, 3)}, "attn_mask has the shape"),
        ({"key_padding_mask": torch.zeros(BATCH, TOKENS + 1)}, "key_padding_mask has the shape"),
        ({"attn_mask": torch.zeros(TOKENS, TOKENS, dtype=torch.int64)}, "type torch.int64"),
    ],
)
def test_masks_when_they_do_not_fit_then_says_what_was_expected(options: dict[str, Tensor], said: str) -> None:
    layer = MultiheadAttention(WIDTH, HEADS, batch_first=True)
    with pytest.raises(InputError, match=said):
        layer(*(numbers(BATCH, TOKENS, WIDTH),) * 3, **options)


def test_inputs_when_they_do_not_fit_then_says_what_was_expected() -> None:
    layer = MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = numbers(BATCH, TOKENS, WIDTH)
    for wrong in ((x, x, x[:, :-1]), (x[..., :-1], x, x), (x[:1], x, x)):
        with pytest.raises(InputError, match="shapes"):
            layer(*wrong)


def test_from_torch_when_it_has_other_parts_then_is_refused() -> None:
    others: tuple[dict[str, Any], ...] = ({"kdim": 8}, {"add_bias_kv": True}, {"add_zero_attn": True})
    for options in others:
        with pytest.raises(InputError, match="no counterpart"):
            MultiheadAttention.from_torch(nn.MultiheadAttention(WIDTH, HEADS, **options))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_layers_when_sizes_coincide_then_stack_to_what_torch_computes(activation: Any) -> None:
    options: dict[str, Any] = {"dim_feedforward": 20, "activation": activation, "batch_first": True}
    theirs = randomised(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, **options), 2, enable_nested_tensor=False)
    )
    ours = TransformerEncoder(TransformerEncoderLayer(WIDTH, HEADS, **options), 2).eval()
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        assert isinstance(mine, TransformerEncoderLayer) and isinstance(other, nn.TransformerEncoderLayer)
        rest = {name: value for name, value in other.state_dict().items() if not name.startswith("self_attn")}
        mine.load_state_dict(rest, strict=False)
        mine.self_attn = MultiheadAttention.from_torch(other.self_attn)
    x = numbers(BATCH, TOKENS, WIDTH)
    padding = masks()["padding"]["key_padding_mask"]
    real = ~padding
    expected = theirs(x, src_key_padding_mask=padding)
    torch.testing.assert_close(ours(x, src_key_padding_mask=padding)[real], expected[real])
    causal = masks()["causal"]["attn_mask"]
    torch.testing.assert_close(ours(x, mask=causal, is_causal=True), theirs(x, mask=causal, is_causal=True))
