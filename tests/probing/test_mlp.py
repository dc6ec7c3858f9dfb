"""MLP probes: the formula, what they can learn, and no step back behind the linear probe."""

from dataclasses import replace

import pytest
import torch

import thalweg as tw
from tests.probing.corpus import same_mlps, sentences
from thalweg.probing import mlp
from thalweg.probing.linear import LinearMap, Moments, fit_ridge, regression_target
from thalweg.probing.plan import ProbeKey, SentenceSplit
from thalweg.probing.probe import probe
from thalweg.probing.states import read_states

TEXTS = sentences(60)


def loss(metric: str, estimates: torch.Tensor, targets: torch.Tensor) -> float:
    cosine = (1 - torch.cosine_similarity(estimates, targets, dim=-1)).sum()
    return float(cosine if metric == "cosine" else (estimates - targets).square().sum())


def test_map_when_applied_then_is_the_linear_map_plus_the_mlp_of_the_standardised_state() -> None:
    linear = LinearMap(torch.tensor([[2.0]]), torch.tensor([1.0]))
    weights = {"enter": [[1.0]], "enter_bias": [0.0], "leave": [[10.0]], "leave_bias": [0.5]}
    mapped = mlp.MlpMap(
        linear, torch.tensor([3.0]), torch.tensor([2.0]), **{name: torch.tensor(w) for name, w in weights.items()}
    )
    assert float(mapped(torch.tensor([[3.0]]))) == 2 * 3 + 1 + 0.5  # z = 0, and gelu(0) = 0
    gelu = 0.8413447  # of z = 1
    assert float(mapped(torch.tensor([[5.0]]))) == pytest.approx(2 * 5 + 1 + 10 * gelu + 0.5)


def test_mlps_when_trained_then_are_no_worse_than_linear_on_validation_and_repeat_with_their_seed(
    bert: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "MAX_EPOCHS", 4)
    first = probe(bert, TEXTS, kinds=("linear", "mlp"), seed=1)
    assert same_mlps(first, probe(bert, TEXTS, kinds=("linear", "mlp"), seed=1))
    assert not same_mlps(first, probe(bert, TEXTS, kinds=("linear", "mlp"), seed=2))
    states = read_states(bert, SentenceSplit.of(TEXTS, 1).validation)
    tokens = ~states.special
    for key, mapped in first.maps.items():
        if key.kind == "mlp":
            inputs, targets = states.layers[key.layer][tokens], states.layers[0][tokens]
            linear = first.maps[key._replace(kind="linear")]
            limit = loss(key.metric, linear(inputs), targets) * (1 + 1e-5)
            assert loss(key.metric, mapped(inputs), targets) <= limit


def test_mlps_when_states_are_cubed_then_learn_more_than_a_linear_map(
    bert: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "LEARNING_RATE", 1e-2)
    targets = torch.randn(8000, 16, generator=torch.Generator().manual_seed(0))
    zeros = torch.zeros(8000, dtype=torch.int64)
    layers = torch.stack([targets, targets**3])
    states = replace(read_states(bert, TEXTS[:1]), layers=layers, ids=zeros, special=zeros.bool())
    keys = [ProbeKey(1, 0, "mlp", metric, "whole") for metric in ("cosine", "l2")]
    moments = Moments.empty(16, 2, 16)
    moments.add(layers[1], torch.stack([regression_target(key.metric, targets) for key in keys]))
    mean, spread = (part.float() for part in moments.spread())
    sizes = (moments.size / moments.count).tolist()
    fits = zip(fit_ridge(moments, moments), sizes, strict=True)
    stack = mlp.MlpStack(keys, [mlp.MlpStart(linear, mean, spread, size) for (linear, _), size in fits], seed=0)
    before = stack.total(states) / 8000
    mlp.train_mlps([stack], lambda _: iter([states]), lambda: iter([states]), 0, lambda _: None)
    assert bool((stack.loss < 0.95 * before).all())
