"""The training loop: it learns, stops early, and ends the same wherever it was interrupted."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import thalweg as tw
from tests.encoders.training.corpus import TINY, cued, tiny_bert, training_run
from thalweg.encoders.training import loop
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.loop import CHECKPOINT, TrainingState, ValidationScore, fit, relative_rate
from thalweg.encoders.training.measure import gold_of
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.tokenizer import learn_tokenizer, token_ids

EXAMPLES = cued(60)
IDS = token_ids(learn_tokenizer(EXAMPLES.texts, 200), EXAMPLES.texts, 32)
GOLD = gold_of(EXAMPLES.labels, ("bad", "good"))
PLAN = replace(TINY, epochs=3, rate=1e-2)


class KilledError(Exception):
    pass


def run(
    folder: Path,
    plan: TrainingPlan = PLAN,
    scores: Iterable[ValidationScore] | None = None,
    killed_at: int | None = None,
) -> tuple[dict[str, Tensor], TrainingState]:
    """Train a tiny model, or raise at a step; `scores` replace those of the validation."""
    model, steps, preset = tiny_bert(), 0, None if scores is None else iter(scores)

    def loss(logits: Tensor, rows: list[int]) -> Tensor:
        nonlocal steps
        steps += 1
        if steps == killed_at:
            raise KilledError
        return cross_entropy(logits, GOLD[rows])

    def validate() -> ValidationScore:
        if preset is not None:
            return next(preset)
        logits = predict(model, IDS, 0)
        accuracy = float((logits.argmax(1) == GOLD).double().mean())
        return ValidationScore(float(cross_entropy(logits, GOLD)), accuracy)

    with training_run(folder, plan.seed) as opened:
        state, seconds = fit(model, IDS, 0, loss, validate, plan, opened)
    assert seconds > 0
    assert not model.training
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, state


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_model_when_trained_then_learns_the_cue(tmp_path: Path) -> None:
    _, state = run(tmp_path, replace(PLAN, epochs=12))
    assert state.best_epoch.validation_accuracy > 0.95
    losses = [epoch.training_loss or 0.0 for epoch in state.history]
    assert losses[-1] < losses[0]


def test_run_when_repeated_then_ends_the_same_and_preserves_the_global_generator(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    first, _ = run(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert same(first, run(tmp_path / "b")[0])
    assert not same(first, run(tmp_path / "c", replace(PLAN, seed=1))[0])


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_run_when_killed_at_any_step_then_resumes_to_the_same_weights(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", seconds)
    uninterrupted, state = run(tmp_path / "uninterrupted")
    steps = state.step
    for kill in (1, 2, steps // 2, steps):
        folder = tmp_path / f"killed {kill}"
        for stop in (kill, 2):  # and once more soon after it resumed
            with pytest.raises(KilledError):
                run(folder, killed_at=min(stop, kill))
            if kill == steps:
                break
        again, resumed = run(folder)
        assert same(uninterrupted, again)
        assert resumed.history == state.history
        assert resumed.step == steps


def test_run_when_killed_many_times_then_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    uninterrupted, state = run(tmp_path / "uninterrupted")
    for _ in range(state.step // 2):
        with pytest.raises(KilledError):
            run(tmp_path / "killed", killed_at=3)
    assert same(uninterrupted, run(tmp_path / "killed")[0])


def test_run_when_scores_stop_improving_then_stops_with_the_best_weights(tmp_path: Path) -> None:
    scores = [
        ValidationScore(1.0, 0.5),
        ValidationScore(0.9, 0.7),
        ValidationScore(0.8, 0.7),
        ValidationScore(0.7, 0.6),
        ValidationScore(0.9, 0.7),
        ValidationScore(0.1, 0.9),
    ]
    weights, state = run(tmp_path / "a", replace(PLAN, epochs=9, patience=2), scores)
    assert len(state.history) == 5  # two epochs without anything better than the third
    assert state.best_epoch.number == 3  # as accurate as the second, with a lower loss
    assert same(state.best, weights)
    with training_run(tmp_path / "a") as opened:
        latest, header = opened.read_tensors(CHECKPOINT) or ({}, {})
    assert not same(weights, {name: latest[f"now.{name}"] for name in state.weights})
    assert len(header["history"]) == 5


def test_rate_when_the_run_proceeds_then_rises_and_falls() -> None:
    rates = [relative_rate(step / 1000) for step in range(1001)]
    peak = rates.index(max(rates))
    assert rates[0] == rates[-1] == 0.0
    assert max(rates) == pytest.approx(1.0, abs=0.02)
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)


def test_loss_when_not_finite_then_advises_a_lower_rate(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match=r"loss is (nan|inf) after .*rate below 1e\+30"):
        run(tmp_path, replace(PLAN, rate=1e30))
    with pytest.raises(tw.InputError, match="loss is nan after"):
        run(tmp_path / "judged", scores=[ValidationScore(float("nan"), 0.5)])
