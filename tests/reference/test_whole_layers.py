"""decompx, alti_logit and globenc against slow twins, written from the formulas with the models' modules by name.

Nothing is shared with the library but attention weights and ALTI's own twin: the twins take vectors one by one, in
double precision, through modules that they know by name, and do not read the wiring that the library discovered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import thalweg as tw
from tests.families import BY_NAME
from tests.reference import twins
from thalweg.capture.norm import Norm
from thalweg.capture.record import Capture

Vectors = list[Tensor]  # one per source; with biases apart the last is no token's
LENGTH = 6


@dataclass(frozen=True)
class Twin:
    """A model in double precision, as its own code spells it: W x + b, norms, activation."""

    model: Any
    capture: Capture
    layers: list[Any]
    post_norm: bool
    value: Callable[[Any], tuple[Tensor, Tensor | None]]
    first: Callable[[Any], Any]  # norm before attention, or after its sum
    second: Callable[[Any], Any]  # norm before the MLP, or after its sum
    mlp: Callable[[Any, Vectors, str], Vectors]
    head: Callable[[Any, Vectors, str], Vectors]
    position: int


def build(name: str) -> Twin:
    family = BY_NAME[name]
    model: Any = family.build().double()
    capture = tw.load(model).capture(family.inputs(1, LENGTH))
    assert isinstance(capture, Capture)
    if name == "bert":
        return Twin(
            model, capture, list(model.bert.encoder.layer), True,
            value=lambda layer: (layer.attention.self.value.weight, layer.attention.self.value.bias),
            first=lambda layer: layer.attention.output.LayerNorm,
            second=lambda layer: layer.output.LayerNorm,
            mlp=lambda layer, parts, biases: linear(
                layer.output.dense, curve(F.gelu, linear(layer.intermediate.dense, parts, biases)), biases
            ),
            head=lambda model, parts, biases: linear(
                model.classifier, curve(torch.tanh, linear(model.bert.pooler.dense, parts, biases)), biases
            ),
            position=0,
        )  # fmt: skip
    if name == "gpt2":
        width = model.config.n_embd
        return Twin(
            model, capture, list(model.transformer.h), False,
            value=lambda layer: (
                layer.attn.c_attn.weight[:, 2 * width :].T, layer.attn.c_attn.bias[2 * width :]
            ),
            first=lambda layer: layer.ln_1,
            second=lambda layer: layer.ln_2,
            mlp=lambda layer, parts, biases: convolution(
                layer.mlp.c_proj,
                curve(lambda z: F.gelu(z, approximate="tanh"), convolution(layer.mlp.c_fc, parts, biases)),
                biases,
            ),
            head=lambda model, parts, biases: linear(
                model.lm_head, norm(model.transformer.ln_f, parts, total(parts), biases), biases
            ),
            position=LENGTH - 1,
        )  # fmt: skip
    return Twin(
        model, capture, list(model.model.layers), False,
        value=lambda layer: (layer.self_attn.v_proj.weight, None),
        first=lambda layer: layer.input_layernorm,
        second=lambda layer: layer.post_attention_layernorm,
        mlp=lambda layer, parts, biases: linear(
            layer.mlp.down_proj,
            [
                part * F.silu(layer.mlp.gate_proj.weight @ total(parts))
                for part in linear(layer.mlp.up_proj, parts, biases)
            ],
            biases,
        ),
        head=lambda model, parts, biases: linear(
            model.lm_head, norm(model.model.norm, parts, total(parts), biases), biases
        ),
        position=LENGTH - 1,
    )  # fmt: skip


def total(parts: Vectors) -> Tensor:
    return torch.stack(parts).sum(0)


def add_bias(parts: Vectors, bias: Tensor | None, biases: str) -> Vectors:
    """b spread with weights |b · z_k| / Σ |b · z_k|, or added to the last vector, which is no token's."""
    if bias is None:
        return parts
    if biases == "apart":
        return [*parts[:-1], parts[-1] + bias]
    sizes = [abs(float(bias @ part)) for part in parts]
    return [part + bias * size / sum(sizes) for part, size in zip(parts, sizes, strict=True)]


def linear(module: Any, parts: Vectors, biases: str) -> Vectors:
    return add_bias([module.weight @ part for part in parts], module.bias, biases)


def convolution(module: Any, parts: Vectors, biases: str) -> Vectors:
    return add_bias([part @ module.weight for part in parts], module.bias, biases)


def curve(function: Callable[[Tensor], Tensor], parts: Vectors) -> Vectors:
    point = total(parts)
    return [part * function(point) / point for part in parts]


def norm(module: Any, parts: Vectors, point: Tensor, biases: str) -> Vectors:
    normed = [twins.layer_norm_linear(as_norm(module), part, point) for part in parts]
    return add_bias(normed, getattr(module, "bias", None), biases)


def as_norm(module: Any) -> Norm:
    centred = isinstance(module, torch.nn.LayerNorm)
    return Norm(module.weight, None, module.eps if centred else module.variance_epsilon, centred)


def attention(twin: Twin, number: int, states: list[Vectors], i: int, biases: str) -> Vectors:
    """z_{i⇐k} = Σ_h Σ_j α_ij^h W_O^h W_V^h x_{j⇐k}, then b_Att = W_O b_V + b_O spread by |b_Att · z_{i⇐k}|.

    Equations 3 to 6 of the paper, for every source k; the residual is not included.
    """
    layer, block = twin.layers[number], twin.capture.blocks[number]
    weights, projection = block.weights().double(), block.projection.double()
    matrix, bias = twin.value(layer)
    mixed = [torch.zeros(projection.shape[-1], dtype=torch.float64) for _ in states[0]]
    for j, parts in enumerate(states):
        inputs = parts if twin.post_norm else norm(twin.first(layer), parts, total(parts), biases)
        for k, part in enumerate(inputs):
            heads = (matrix @ part).reshape(-1, projection.shape[1])
            for h in range(len(projection)):
                mixed[k] = mixed[k] + weights[h, i, j] * (heads[h * len(heads) // len(projection)] @ projection[h])
    if block.bias is None:
        assert bias is None, "no twin has a value bias alone"
        return mixed
    assert bias is not None
    return add_bias(mixed, block.bias.double() + projection.flatten(0, 1).T @ bias, biases)


def decompx(twin: Twin, output: int, biases: str) -> Vectors:
    """Every position's vectors through all layers and the head: a number per source."""
    start = twin.capture.blocks[0].input.double()
    count = len(start)
    nothing = torch.zeros_like(start[0])
    states = [
        [start[i] if k == i else nothing for k in range(count + (biases == "apart"))] for i in range(count)
    ]  # fmt: skip
    for number, layer in enumerate(twin.layers):
        after = []
        for i in range(count):
            mixed = attention(twin, number, states, i, biases)
            parts = [a + b for a, b in zip(states[i], mixed, strict=True)]
            if twin.post_norm:
                parts = norm(twin.first(layer), parts, total(parts), biases)
            inputs = parts if twin.post_norm else norm(twin.second(layer), parts, total(parts), biases)
            written = twin.mlp(layer, inputs, biases)
            parts = [a + b for a, b in zip(parts, written, strict=True)]
            if twin.post_norm:
                parts = norm(twin.second(layer), parts, total(parts), biases)
            after.append(parts)
        states = after
    return [part[output] for part in twin.head(twin.model, states[twin.position], biases)]


def alti_logit(twin: Twin, output: int) -> tuple[Tensor, float]:
    """(r, what belongs to no token): every vector that a layer writes is pushed up to the logit on its own."""
    blocks, place = twin.capture.blocks, twin.position
    points = [path_points(twin, number) for number in range(len(blocks))]
    count = len(blocks[0].input)
    scores, apart = torch.zeros(count, dtype=torch.float64), 0.0
    reached = torch.eye(count, dtype=torch.float64)  # R of the layers below
    for number, block in enumerate(blocks):
        weights, values, projection = block.weights().double(), block.attention.values().double(), block.projection
        update = torch.zeros(count, dtype=torch.float64)
        for j in range(count):
            written = sum(weights[h, place, j] * (values[h, j] @ projection[h].double()) for h in range(len(values)))
            update[j] = push(twin, points, number, "attention", written, output)  # pyright: ignore[reportArgumentType]
        scores += update @ reached
        if block.bias is not None:
            apart += float(push(twin, points, number, "attention", block.bias, output))
        apart += float(push(twin, points, number, "mlp", points[number][2], output))
        for module, stage in ((twin.first, "mlp"), (twin.second, "end")) if twin.post_norm else ():
            apart += float(push(twin, points, number, stage, module(twin.layers[number]).bias, output))
        reached = twins.alti_contributions(block) @ reached
    apart += float(push(twin, points, 0, "attention", blocks[0].input[place].double(), output))
    nothing = torch.zeros_like(points[-1][3])
    return scores, apart + float(twin.head(twin.model, [points[-1][3], nothing], "apart")[-1][output])


def path_points(twin: Twin, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(sum after attention, sum after the MLP, what the MLP wrote, output of the layer) at the position read."""
    layer, block = twin.layers[number], twin.capture.blocks[number]
    summed = block.summed[twin.position].double()
    hidden = twin.first(layer)(summed) if twin.post_norm else summed
    state = hidden if twin.post_norm else twin.second(layer)(summed)
    (written,) = twin.mlp(layer, [state], "absdot")
    after = hidden + written
    return summed, after, written, twin.second(layer)(after) if twin.post_norm else after


def push(twin: Twin, points: list, number: int, stage: str, vector: Tensor, output: int) -> Tensor:
    """A vector written into layer `number` (before its first norm, before its second, at its end), up to the logit."""
    for l in range(number, len(points)):  # noqa: E741
        layer, (summed, after, _, _) = twin.layers[l], points[l]
        if twin.post_norm and (l > number or stage == "attention"):
            vector = twins.layer_norm_linear(as_norm(twin.first(layer)), vector, summed)
        if twin.post_norm and (l > number or stage != "end"):
            vector = twins.layer_norm_linear(as_norm(twin.second(layer)), vector, after)
    rest = points[-1][3] - vector
    # biases apart: the third vector takes them, the first is the linear part of what was pushed
    return twin.head(twin.model, [vector, rest, torch.zeros_like(rest)], "apart")[0][output]


def globenc(twin: Twin) -> Tensor:
    """‖L₂ T_ij / σ₂‖ multiplied through the layers; rows normalised at the end, in a pre-norm model in each layer."""
    count = len(twin.capture.blocks[0].input)
    reached = torch.eye(count, dtype=torch.float64)
    for layer, block in zip(twin.layers, twin.capture.blocks, strict=True):
        parts, rest = twins.transformed_vectors(block)
        sizes = torch.zeros(count, count, dtype=torch.float64)
        for i in range(count):
            hidden = parts[i].sum(0) + rest[i]
            for j in range(count):
                vector = parts[i, j]
                if twin.post_norm:
                    after = hidden + twin.mlp(layer, [hidden], "absdot")[0]
                    vector = twins.layer_norm_linear(as_norm(twin.second(layer)), vector, after)
                sizes[i, j] = vector.norm()
        reached = (sizes if twin.post_norm else sizes / sizes.sum(1, keepdim=True)) @ reached
    return reached / reached.sum(1, keepdim=True)


each = pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])


def explained(twin: Twin, method: str, **params: Any) -> tw.Attribution:
    return tw.explain(tw.load(twin.model), twin.capture, method, twin.position, **params)


@each
@pytest.mark.parametrize("biases", ["absdot", "apart"])
def test_decompx_when_compared_with_the_literal_formula_then_is_the_same(name: str, biases: str) -> None:
    twin = build(name)
    with torch.no_grad():
        expected = decompx(twin, 1, biases)
    result = explained(twin, "decompx", output=1, biases=biases)
    np.testing.assert_allclose(result.scores[0], expected[:LENGTH], atol=2e-6, rtol=1e-5)
    assert result.receipt.figures["no token"] == pytest.approx(float(sum(expected[LENGTH:])), abs=2e-6)


@each
def test_alti_logit_when_compared_with_the_literal_formula_then_is_the_same(name: str) -> None:
    twin = build(name)
    with torch.no_grad():
        scores, apart = alti_logit(twin, 1)
    result = explained(twin, "alti_logit", output=1)
    np.testing.assert_allclose(result.scores[0], scores, atol=2e-6, rtol=1e-5)
    figures = result.receipt.figures
    assert figures["mlps"] + figures["biases"] + figures["own embedding"] == pytest.approx(apart, abs=2e-6)


@each
def test_globenc_when_compared_with_the_literal_formula_then_is_the_same(name: str) -> None:
    twin = build(name)
    with torch.no_grad():
        expected = globenc(twin)[twin.position]
    np.testing.assert_allclose(explained(twin, "globenc").scores[0], expected, atol=1e-6)
