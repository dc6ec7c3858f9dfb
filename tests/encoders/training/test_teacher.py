"""Distillation: a teacher's logits are stored, its labels reordered, and unsuitable teachers refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import thalweg as tw
from tests.encoders.training.corpus import TINY, cued, tiny_bert, training_run
from tests.tiny import snapshot
from thalweg.encoders.training import teacher as module
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import LabelledSplits
from thalweg.encoders.training.loop import TrainingState
from thalweg.encoders.training.result import Training
from thalweg.encoders.training.teacher import TEACHER, TeacherOutput, run_teacher, training_loss
from thalweg.encoders.training.tokenizer import learn_tokenizer, prepare_tokenizer, token_ids
from thalweg.encoders.training.train import train

EXAMPLES, TEST = cued(240), cued(40, seed=1)


def test_teacher_when_its_labels_are_in_another_order_then_logits_follow_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tw.load(tiny_bert(labels=("good", "bad")).eval(), learn_tokenizer(EXAMPLES.texts, 200))
    assert teacher.tokenizer is not None
    expected = predict(teacher.model, token_ids(teacher.tokenizer, EXAMPLES.texts, 32), 0)
    splits = LabelledSplits(EXAMPLES, TEST, None)
    with training_run(tmp_path) as run:
        first = run_teacher(teacher, splits, ("bad", "good"), run)
        assert torch.equal(first.logits, expected[:, [1, 0]])
        monkeypatch.delattr(module, "predict")
        stored = run_teacher(teacher, splits, ("bad", "good"), run)  # not run again
    assert torch.equal(stored.logits, first.logits)
    assert stored.figures == first.figures


def test_loss_when_there_is_a_teacher_then_adds_the_squared_distance_to_its_logits(trained: Training) -> None:
    gold, logits = torch.tensor([1, 0]), torch.zeros(1, 2)
    assert float(training_loss(gold, None)(logits, [1])) == pytest.approx(0.6931, abs=1e-4)  # log 2
    taught = TeacherOutput(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), trained.figures)
    assert float(training_loss(gold, taught)(logits, [1])) == pytest.approx(0.6931 + 2.0, abs=1e-4)


def test_student_when_distilled_then_is_closer_to_its_teacher(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer(EXAMPLES.texts, 200)
    teacher = tw.load(tiny_bert(labels=("good", "bad")).eval(), tokenizer)
    with torch.no_grad():
        teacher.model.get_parameter("classifier.weight").mul_(10)  # logits that differ from the labels
    before = snapshot(teacher.model)
    plan = replace(TINY, rate=1e-2, epochs=6, patience=6)
    alone = train(EXAMPLES, tmp_path / "alone", plan, tokenizer=tokenizer)
    taught = train(EXAMPLES, tmp_path / "taught", plan, tokenizer=tokenizer, teacher=teacher, test=TEST)
    assert snapshot(teacher.model) == before
    wanted = predict(teacher.model, token_ids(tokenizer, TEST.texts, 32), 0)[:, [1, 0]]

    def distance(run: Training) -> float:
        subject = tw.load(run.folder)
        logits = predict(subject.model, token_ids(prepare_tokenizer(tokenizer, 32), TEST.texts, 32), 0)
        return float((logits - wanted).square().mean())

    assert distance(taught) < 0.5 * distance(alone)
    assert alone.teacher is None
    assert taught.teacher is not None
    assert taught.teacher.parameters == sum(p.numel() for p in teacher.model.parameters())
    gold = torch.tensor([taught.labels.index(label) for label in TEST.labels])
    assert taught.teacher.test is not None
    assert taught.teacher.test.rate == float((wanted.argmax(1) == gold).double().mean())


def test_teacher_when_the_run_was_interrupted_then_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tw.load(tiny_bert().eval(), learn_tokenizer(EXAMPLES.texts, 200))
    with monkeypatch.context() as patched:
        patched.delattr(TrainingState, "end_epoch")
        with pytest.raises(AttributeError, match="end_epoch"):
            train(EXAMPLES, tmp_path, TINY, teacher=teacher)
    monkeypatch.delattr("thalweg.encoders.training.teacher.predict")
    train(EXAMPLES, tmp_path, TINY, teacher=teacher)
    assert not (tmp_path / TEACHER).exists()


def test_teacher_when_unsuitable_then_is_refused_at_once(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer(EXAMPLES.texts, 200)
    for teacher, fact in (
        (tw.load(tiny_bert(labels=("no", "yes")).eval(), tokenizer), "labels .*'bad', 'good'.*'no', 'yes'"),
        (tw.load(tiny_bert().bert.eval(), tokenizer), "must be a text classifier.*'encoder'"),
        (tw.load(tiny_bert().eval()), "needs a tokenizer"),
    ):
        with pytest.raises(tw.InputError, match=fact):
            train(EXAMPLES, tmp_path / "out", TINY, teacher=teacher)
    assert not (tmp_path / "out").exists()
