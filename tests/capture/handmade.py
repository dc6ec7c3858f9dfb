"""A two-layer transformer whose modules have meaningless names: nothing about it can be guessed, only discovered."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from thalweg.capture.observe import Pass, watch

WIDTH, HEADS, TOKENS, CLASSES = 8, 2, 6, 3
IDS = torch.tensor([[3, 1, 4, 5, 9, 2]])


@dataclass(frozen=True)
class Shape:
    """How the layers are wired."""

    post_norm: bool = False
    parallel: bool = False
    multiplier: float = 1.0
    gated: bool = False
    convolved: bool = False  # a token also reads its neighbour, outside of attention
    per_token: bool = True  # logits for each token, or for the first one only


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c = nn.Linear(WIDTH, 3 * WIDTH)
        self.d = nn.Linear(WIDTH, WIDTH)
        self.e = nn.Linear(WIDTH, 12)
        self.f = nn.Linear(WIDTH, 12) if shape.gated else None
        self.g = nn.Linear(12, WIDTH)

    def forward(self, state: Tensor) -> Tensor:
        shape = self.shape
        start = state if shape.post_norm else self.a(state)
        branch = self.d(self.attend(start))
        if shape.parallel:
            return state + branch + self.mlp(start)
        state = state + shape.multiplier * branch
        if shape.post_norm:
            state = self.a(state)
        written = self.mlp(state if shape.post_norm else self.b(state))
        if shape.convolved:
            written = written + state.roll(1, dims=1)
        state = state + shape.multiplier * written
        return self.b(state) if shape.post_norm else state

    def attend(self, start: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c(start).split(WIDTH, dim=-1)
        )
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)

    def mlp(self, start: Tensor) -> Tensor:
        if self.f is None:
            return self.g(F.gelu(self.e(start)))
        return self.g(F.silu(self.f(start)) * self.e(start))


class Handmade(nn.Module):
    """Bypasses the attention registry of transformers, like BLOOM or GPT-J."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=False)
        self.shape = shape
        self.x = nn.Embedding(10, WIDTH)
        self.y = nn.ModuleList([Layer(shape), Layer(shape)])
        self.z = nn.Linear(WIDTH, CLASSES)

    def layer(self, number: int) -> Layer:
        layer = self.y[number]
        assert isinstance(layer, Layer)
        return layer

    @property
    def base_model(self) -> nn.Module:
        return self

    def get_input_embeddings(self) -> nn.Module:
        return self.x

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        state = self.x(input_ids)
        for layer in self.y:
            state = layer(state)
        return {"logits": self.z(state) if self.shape.per_token else self.z(state[:, 0])}


def handmade(**shape: Any) -> Handmade:
    """A model with random weights and biases, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Handmade(Shape(**shape))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
    return model.eval()


def traced(model: Handmade) -> Pass:
    """A fully watched pass."""
    with torch.no_grad():
        return watch(model, {"input_ids": IDS}, through_registry=False)
