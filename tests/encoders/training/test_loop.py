"""Learning: it learns, it stops, and it ends the same wherever it was interrupted."""

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import thalweg as tw
from tests.encoders.training.corpus import TINY, cued, tiny_bert
from thalweg.encoders.training import loop
from thalweg.encoders.training.batches import batches, logits_of, predict
from thalweg.encoders.training.loop import Learner, Score, fit, height
from thalweg.encoders.training.measure import gold_of
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.storage import Folder
from thalweg.encoders.training.tokenizer import learn_tokenizer, token_ids

EXAMPLES = cued(60)
IDS = token_ids(learn_tokenizer(EXAMPLES.texts, 200), EXAMPLES.texts, 32)
GOLD = gold_of(EXAMPLES.labels, ("bad", "good"))
PLAN = replace(TINY, epochs=3, rate=1e-2)


class KilledError(Exception):
    pass


def run(
    folder: Path, plan: TrainingPlan = PLAN, scores: Iterable[Score] | None = None, killed_at: int | None = None
) -> tuple[dict[str, Tensor], Learner]:
    """Train a tiny model, or die at a step; with `scores` the validation says what they say."""
    model, steps, said = tiny_bert(), 0, None if scores is None else iter(scores)

    def loss(logits: Tensor, rows: list[int]) -> Tensor:
        nonlocal steps
        steps += 1
        if steps == killed_at:
            raise KilledError
        return cross_entropy(logits, GOLD[rows])

    def validate() -> Score:
        if said is not None:
            return next(said)
        logits = predict(model, IDS, 0)
        right = float((logits.argmax(1) == GOLD).double().mean())
        return Score(float(cross_entropy(logits, GOLD)), right)

    store = Folder(folder, {"seed": plan.seed})
    learner, seconds = fit(model, IDS, 0, loss, validate, plan, store)
    assert seconds > 0
    assert not model.training
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, learner


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_batches_when_made_then_hold_every_row_once_within_the_limit() -> None:
    found = batches(IDS, 64, random.Random(0))
    assert sorted(row for rows in found for row in rows) == list(range(len(IDS)))
    assert all(len(rows) * max(len(IDS[row]) for row in rows) <= 64 for rows in found)
    assert [len(rows) for rows in batches(IDS, 1, random.Random(0))] == [1] * len(IDS)


def test_predictions_when_batched_then_are_those_of_each_text_alone() -> None:
    model = tiny_bert()
    found = predict(model.train(), IDS, 0)
    assert model.training
    with torch.no_grad():
        alone = torch.cat([logits_of(model.eval(), [row], 0) for row in IDS])
    assert torch.allclose(found, alone, atol=1e-5)


def test_model_when_trained_then_learns_the_cue(tmp_path: Path) -> None:
    _, learner = run(tmp_path, replace(PLAN, epochs=12))
    assert learner.best_epoch.validation_accuracy > 0.95
    losses = [one.training_loss or 0.0 for one in learner.history]
    assert losses[-1] < losses[0]


def test_run_when_repeated_then_ends_the_same_and_leaves_the_random_numbers_of_the_user(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    first, _ = run(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert same(first, run(tmp_path / "b")[0])
    assert not same(first, run(tmp_path / "c", replace(PLAN, seed=1))[0])


@pytest.mark.parametrize("every", [0.0, 60.0])
def test_run_when_killed_at_any_step_then_goes_on_to_the_same_weights(
    every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "EVERY", every)
    whole, learner = run(tmp_path / "whole")
    steps = learner.step
    for kill in (1, 2, steps // 2, steps):
        folder = tmp_path / f"killed {kill}"
        for stop in (kill, 2):  # and once more soon after it went on
            with pytest.raises(KilledError):
                run(folder, killed_at=min(stop, kill))
            if kill == steps:
                break
        again, resumed = run(folder)
        assert same(whole, again)
        assert resumed.history == learner.history
        assert resumed.step == steps


def test_run_when_killed_many_times_then_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "EVERY", 0.0)
    whole, learner = run(tmp_path / "whole")
    for _ in range(learner.step // 2):
        with pytest.raises(KilledError):
            run(tmp_path / "killed", killed_at=3)
    assert same(whole, run(tmp_path / "killed")[0])


def test_run_when_nothing_gets_better_then_stops_and_keeps_the_best(tmp_path: Path) -> None:
    scores = [Score(1.0, 0.5), Score(0.9, 0.7), Score(0.8, 0.7), Score(0.7, 0.6), Score(0.9, 0.7), Score(0.1, 0.9)]
    weights, learner = run(tmp_path / "a", replace(PLAN, epochs=9, patience=2), scores)
    assert len(learner.history) == 5  # two epochs without anything better than the third
    assert learner.best_epoch.number == 3  # as accurate as the second, with a lower loss
    assert same(learner.best, weights)
    latest, kept = Folder(tmp_path / "a", {"seed": 0}).read("checkpoint") or ({}, {})
    assert not same(weights, {name: latest[f"now.{name}"] for name in learner.weights})
    assert len(kept["history"]) == 5


def test_rate_when_the_run_goes_on_then_rises_and_falls() -> None:
    heights = [height(step / 1000) for step in range(1001)]
    peak = heights.index(max(heights))
    assert heights[0] == heights[-1] == 0.0
    assert max(heights) == pytest.approx(1.0, abs=0.02)
    assert heights[:peak] == sorted(heights[:peak])
    assert heights[peak:] == sorted(heights[peak:], reverse=True)


def test_loss_when_not_a_number_then_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match=r"loss is (nan|inf) after .*lower rate than 1e\+30"):
        run(tmp_path, replace(PLAN, rate=1e30))
    with pytest.raises(tw.InputError, match="loss is nan after"):
        run(tmp_path / "judged", scores=[Score(float("nan"), 0.5)])
