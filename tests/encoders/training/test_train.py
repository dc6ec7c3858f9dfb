"""From examples to a folder that can be loaded, certified, resumed and read again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertTokenizer, RobertaPreLayerNormConfig

import thalweg as tw
from tests.encoders.training.corpus import TINY, cued, tiny_bert
from tests.tiny import snapshot, tiny_subject, wordpiece
from thalweg.encoders.training import loop
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import Data, LabelledTexts
from thalweg.encoders.training.measure import Asked, gold_of
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.result import Training
from thalweg.encoders.training.storage import Folder
from thalweg.encoders.training.teacher import learning_loss
from thalweg.encoders.training.tokenizer import learn_tokenizer, prepared, token_ids
from thalweg.encoders.training.train import train
from thalweg.identifiability.by_length import certified_length, pieces_of

EXAMPLES, TEST = cued(240), cued(40, seed=1)
PLAN = replace(TINY, rate=1e-2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return train(EXAMPLES, tmp_path_factory.mktemp("run") / "out", PLAN, test=TEST)


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def same(one: str | Path, other: str | Path) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_classifier_when_trained_then_is_right_and_says_so(trained: Training) -> None:
    figures = trained.figures
    assert figures.test is not None
    assert figures.test.rate > 0.9
    assert figures.test.low < figures.test.rate < figures.test.high + 1e-9
    assert figures.validation.rate == trained.history[trained.best_epoch - 1].validation_accuracy
    assert trained.counts["training examples"] + trained.counts["validation examples"] == 240
    assert trained.labels == ("bad", "good")
    assert trained.seconds > 0


def test_folder_when_finished_then_is_a_model_that_can_be_loaded_and_read(trained: Training) -> None:
    folder = Path(trained.folder)
    expected = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "training.json"}
    assert {one.name for one in folder.iterdir()} == expected
    subject = tw.load(folder)
    assert sum(p.numel() for p in subject.model.parameters()) == trained.figures.parameters
    assert tw.explain(subject, "the story was lovely").prediction == "good"
    assert tw.explain(subject, "the story was stale").prediction == "bad"
    assert 0 < trained.figures.certified_length <= trained.figures.tried_length
    assert Training.load(folder) == trained
    assert json.loads(json.dumps(trained.to_dict())) == trained.to_dict()


def test_run_when_finished_and_asked_for_again_then_is_only_read(
    trained: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("thalweg.encoders.training.train.fit")
    assert train(EXAMPLES, trained.folder, PLAN, test=TEST) == trained


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"plan": replace(PLAN, rate=0.5)}, r"another choice of rate \(0.01 there, 0.5 here\)"),
        ({"plan": replace(PLAN, heads=4, seed=9)}, r"heads \(2 there, 4 here\), seed \(0 there, 9 here\)"),
        ({"examples": cued(241)}, "training examples"),
        ({"test": None}, "test examples"),
        ({"tokenizer": wordpiece()}, "tokenizer"),
        ({"teacher": True}, "teacher"),
    ],
)
def test_folder_when_it_holds_another_run_then_is_refused(trained: Training, changed: dict, said: str) -> None:
    asked = {"examples": EXAMPLES, "out": trained.folder, "plan": PLAN, "test": TEST, **changed}
    if asked.pop("teacher", False):
        asked["teacher"] = tw.load(tiny_bert().eval(), learn_tokenizer(EXAMPLES.texts, 200))
    with pytest.raises(tw.InputError, match=said):
        train(**asked)


def test_folder_when_it_holds_something_else_then_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(tw.InputError, match="not of a training"):
        train(EXAMPLES, tmp_path, TINY)
    with pytest.raises(tw.InputError, match="is a file"):
        train(EXAMPLES, tmp_path / "thesis.txt", TINY)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]


def test_folder_when_a_kill_left_a_draft_then_is_cleaned_and_used(trained: Training, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensorsabc.draft").write_text("half of it")
    train(EXAMPLES, tmp_path, PLAN, test=TEST)
    assert same(tmp_path, trained.folder)
    assert not list(tmp_path.glob("*.draft"))


def test_sizes_when_they_do_not_fit_then_nothing_is_written(tmp_path: Path) -> None:
    for sizes in ({"width": 15}, {"value_size": 17}):
        with pytest.raises(tw.InputError):
            train(EXAMPLES, tmp_path / "out", replace(TINY, **sizes))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stage", ["fit", "figures", "_save"])
def test_run_when_it_fails_at_any_stage_then_goes_on_to_the_same_model(
    stage: str, trained: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"thalweg.encoders.training.train.{stage}", fail)
        with pytest.raises(KeyboardInterrupt):
            train(EXAMPLES, tmp_path, PLAN, test=TEST)
    with pytest.raises(tw.InputError, match="no finished training"):
        Training.load(tmp_path)
    again = train(EXAMPLES, tmp_path, PLAN, test=TEST)
    assert same(tmp_path, trained.folder)
    assert replace(again, folder=trained.folder, seconds=trained.seconds) == trained


KILLED = """
import sys
from dataclasses import replace
from tests.encoders.training.corpus import TINY, cued
from thalweg.encoders.training import loop
from thalweg.encoders.training.train import train
from thalweg.identifiability.by_length import certified_length, pieces_of
loop.EVERY = 0.0
train(cued(240), sys.argv[1], replace(TINY, rate=1e-2, epochs=1000, patience=1000))
"""


def test_process_when_killed_then_its_run_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plan = tmp_path / "killed", replace(TINY, rate=1e-2, epochs=1000, patience=1000)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 120
        while not (folder / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    store = Folder(folder, configuration := _configuration(folder))
    kept = store.read("checkpoint")
    assert kept is not None
    step = kept[1]["step"]
    assert step > 0

    class EnoughError(Exception):
        pass

    def stops_after(steps: int) -> None:
        learn = loop.Learner.learn

        def until(self: loop.Learner, *rest: object) -> None:
            if self.step == steps:
                raise EnoughError
            learn(self, *rest)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(loop.Learner, "learn", until)

    monkeypatch.setattr(loop, "EVERY", 0.0)
    stops_after(step + 5)
    for out in (folder, tmp_path / "whole"):
        with pytest.raises(EnoughError):
            train(EXAMPLES, out, plan)
    found = [Folder(out, configuration).read("checkpoint") for out in (folder, tmp_path / "whole")]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0][1]["step"] == found[1][1]["step"] == step + 5
    assert found[0][1]["history"] == found[1][1]["history"]
    assert all(torch.equal(tensor, found[1][0][name]) for name, tensor in found[0][0].items())


def _configuration(folder: Path) -> dict:
    from thalweg.files.atomic import read_tensors

    return read_tensors(folder / "checkpoint.safetensors", "a checkpoint")[1]["configuration"]


def test_student_when_distilled_then_comes_nearer_to_its_teacher(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer(EXAMPLES.texts, 200)
    teacher = tw.load(tiny_bert(labels=("good", "bad")).eval(), tokenizer)
    with torch.no_grad():
        teacher.model.get_parameter("classifier.weight").mul_(10)  # an opinion of its own
    before = snapshot(teacher.model)
    plan = replace(TINY, rate=1e-2, epochs=6, patience=6)
    alone = train(EXAMPLES, tmp_path / "alone", plan, tokenizer=tokenizer)
    taught = train(EXAMPLES, tmp_path / "taught", plan, tokenizer=tokenizer, teacher=teacher, test=TEST)
    assert snapshot(teacher.model) == before
    wanted = predict(teacher.model, token_ids(tokenizer, TEST.texts, 32), 0)[:, [1, 0]]

    def distance(run: Training) -> float:
        subject = tw.load(run.folder)
        found = predict(subject.model, token_ids(prepared(tokenizer, 32), TEST.texts, 32), 0)
        return float((found - wanted).square().mean())

    assert distance(taught) < 0.5 * distance(alone)
    assert alone.teacher is None
    assert taught.teacher is not None
    assert taught.teacher.parameters == sum(p.numel() for p in teacher.model.parameters())
    gold = torch.tensor([taught.labels.index(label) for label in TEST.labels])
    assert taught.teacher.test is not None
    assert taught.teacher.test.rate == float((wanted.argmax(1) == gold).double().mean())


def test_teacher_when_the_run_was_killed_then_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tw.load(tiny_bert().eval(), learn_tokenizer(EXAMPLES.texts, 200))
    with monkeypatch.context() as patched:
        patched.delattr(loop.Learner, "judge")
        with pytest.raises(AttributeError, match="judge"):
            train(EXAMPLES, tmp_path, TINY, teacher=teacher)
    monkeypatch.delattr("thalweg.encoders.training.teacher.predict")
    train(EXAMPLES, tmp_path, TINY, teacher=teacher)
    assert not (tmp_path / "teacher.safetensors").exists()


def test_teacher_when_it_cannot_teach_then_is_refused_at_once(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer(EXAMPLES.texts, 200)
    for teacher, said in (
        (tw.load(tiny_bert(labels=("no", "yes")).eval(), tokenizer), "must have the same names"),
        (tw.load(tiny_bert().bert.eval(), tokenizer), "only a text classifier"),
        (tw.load(tiny_bert().eval()), "no tokenizer"),
    ):
        with pytest.raises(tw.InputError, match=said):
            train(EXAMPLES, tmp_path / "out", TINY, teacher=teacher)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tw.Subject:
    """A classifier of somebody else that knows the cues, its labels the other way round."""
    tokenizer = learn_tokenizer(EXAMPLES.texts, 200)
    model, names = tiny_bert(labels=("good", "bad"), vocabulary=len(tokenizer)), ("good", "bad")
    ids, gold = token_ids(tokenizer, EXAMPLES.texts, 32), gold_of(EXAMPLES.labels, names)

    def validate() -> loop.Score:
        return Asked(predict(model, ids, 0), gold).score()

    store = Folder(tmp_path_factory.mktemp("bert"), {})
    loop.fit(model, ids, 0, learning_loss(gold, None), validate, replace(PLAN, epochs=8), store)
    return tw.load(model, tokenizer)


def test_classifier_when_made_more_identifiable_then_shows_both_and_is_no_worse(
    bert: tw.Subject, tmp_path: Path
) -> None:
    before = snapshot(bert.model)
    plan = TrainingPlan(combine="add", epochs=2, rate=1e-2, max_length=32)
    result = train(EXAMPLES, tmp_path, plan, test=TEST, init_from=bert, teacher=bert)
    assert snapshot(bert.model) == before
    assert result.teacher is not None
    assert result.labels == ("good", "bad")
    assert result.inherited is not None
    assert result.inherited["approximate"] == result.inherited["left"] == ()
    assert result.history[0].number == 0
    assert result.history[0].training_loss is None
    assert result.history[0].validation_accuracy == result.teacher.validation.rate
    assert result.figures.validation.rate >= result.teacher.validation.rate
    assert result.figures.certified_length > result.teacher.certified_length
    assert result.figures.identifiable > result.teacher.identifiable
    assert tw.explain(tw.load(tmp_path), "a lovely story").prediction == "good"
    assert Training.load(tmp_path) == result


def test_weights_when_taken_from_an_encoder_then_help(bert: tw.Subject, tmp_path: Path) -> None:
    few = EXAMPLES.at(range(20))
    plan = replace(PLAN, heads=None, width=None, key_size=2, epochs=1, rate=1e-4)
    inherited = train(few, tmp_path / "a", plan, validation=TEST, init_from=tw.load(bert.model, bert.tokenizer))
    anew = train(few, tmp_path / "b", replace(plan, width=16, heads=2), validation=TEST)
    assert inherited.inherited is not None
    assert inherited.inherited["approximate"] == ("layers.0.self_attn",)
    assert inherited.figures.validation.rate > anew.figures.validation.rate
    assert anew.inherited is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"plan": TrainingPlan(width=32)}, "width was given, but it is that of the model to start from"),
        ({"plan": TrainingPlan(heads=4)}, "heads was given"),
        ({"plan": TrainingPlan(layers=2)}, "layers was given 2"),
        (
            {"plan": TrainingPlan(max_length=33)},
            "max_length was given 33, but the model to start from has positions for 32",
        ),
        ({"tokenizer": wordpiece()}, "has its own tokenizer"),
        ({"init_from": tw.load(tiny_bert().eval())}, "has no tokenizer"),
        ({"init_from": tw.load(tiny_bert(vocabulary=50).eval(), wordpiece())}, "embeddings for 50 only"),
        ({"init_from": tiny_subject("gpt2")}, "cannot be inherited from"),
    ],
)
def test_source_when_it_does_not_fit_then_nothing_is_written(
    bert: tw.Subject, tmp_path: Path, changed: dict, said: str
) -> None:
    with pytest.raises(tw.InputError, match=said):
        train(**{"examples": EXAMPLES, "out": tmp_path / "out", "init_from": bert, **changed})
    assert not (tmp_path / "out").exists()


def test_loss_when_there_is_no_teacher_then_is_cross_entropy() -> None:
    loss = learning_loss(torch.tensor([1, 0]), None)
    assert float(loss(torch.zeros(1, 2), [1])) == pytest.approx(0.6931, abs=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"patience": 0},
        {"validation_share": 0.0},
        {"validation_share": 1.0},
        {"rate": 0.0},
        {"rate": float("inf")},
        {"rate": float("nan")},
        {"dropout": 1.0},
        {"max_length": 7},
        {"vocabulary": 3},
        {"batch_tokens": 0},
        {"layers": -1},
        {"seed": 0.5},
        {"epochs": True},
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_plan_when_a_choice_makes_no_sense_then_is_named(wrong: dict) -> None:
    with pytest.raises(tw.InputError, match=f"{next(iter(wrong))} was given"):
        TrainingPlan(**wrong)


def test_result_when_the_folder_holds_none_then_says_so(trained: Training, tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="no finished training"):
        Training.load(tmp_path)
    file = tmp_path / "training.json"
    for content, said in (
        ("{", "no finished"),
        ("[]", "no result"),
        ('{"schema": 99}', "no result"),
        ('{"schema": 2, "configuration": {}}', "lacks a part"),
    ):
        file.write_text(content)
        with pytest.raises(tw.InputError, match=said):
            Training.load(tmp_path)
    shutil.copy(Path(trained.folder) / "training.json", file)
    assert Training.load(tmp_path).figures == trained.figures


def test_examples_when_one_class_only_then_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="two labels or more"):
        train(LabelledTexts(["a", "b", "c"], ["x"] * 3), tmp_path / "out", TINY)
    assert not (tmp_path / "out").exists()


def test_certified_length_when_found_then_pieces_of_it_are_determined_and_longer_ones_not(shipped: tw.Subject) -> None:
    """Of the model that ships, 17: values of 16 dimensions and rows that sum to one."""
    texts = ["a gorgeous, witty, seductive movie that never quite manages to interest anyone in its places."] * 4
    assert certified_length(shipped, texts) == (17, 18)
    for length, expected in ((17, 40), (18, 0)):
        for piece in pieces_of(shipped, texts, [length], 4):
            assert tw.trust(shipped, piece).counts()["identifiable"] == expected
    assert certified_length(shipped, texts[0].split(",")[:1]) == (4, 4)


def test_run_when_it_came_apart_then_the_folder_is_free_for_another(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="Choose a lower rate"):
        train(EXAMPLES, tmp_path / "out", replace(PLAN, rate=1e20))
    assert train(EXAMPLES, tmp_path / "out", replace(PLAN, epochs=1)).history


def test_folder_when_another_run_writes_into_it_then_is_refused(tmp_path: Path) -> None:
    store = Folder(tmp_path, {})
    with store.alone(), pytest.raises(tw.InputError, match="another run is writing"), Folder(tmp_path, {}).alone():
        pass
    with Folder(tmp_path, {}).alone():
        pass


def test_labels_when_equal_as_numbers_or_hardly_numbers_then_have_one_order() -> None:
    orders = {
        Data(LabelledTexts(["a", "b", "c"], labels), LabelledTexts(["a"], labels[:1]), None).labels
        for labels in (["1", "01", "2"], ["01", "2", "1"])
    }
    assert orders == {("01", "1", "2")}
    assert Data(LabelledTexts(["a", "b"], ["--1", "2"]), LabelledTexts(["a"], ["2"]), None).labels == ("--1", "2")


def test_tokenizer_when_it_treats_the_same_vocabulary_otherwise_then_is_another_run(tmp_path: Path) -> None:
    vocabulary = learn_tokenizer(EXAMPLES.texts, 200).get_vocab()
    lower, cased = (BertTokenizer(vocab=vocabulary, do_lower_case=lower) for lower in (True, False))
    train(EXAMPLES, tmp_path / "out", replace(PLAN, epochs=1), tokenizer=lower)
    with pytest.raises(tw.InputError, match="another choice of tokenizer"):
        train(EXAMPLES, tmp_path / "out", replace(PLAN, epochs=1), tokenizer=cased)


def small_config(inner: int = 32) -> RobertaPreLayerNormConfig:
    return RobertaPreLayerNormConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=inner,
        max_position_embeddings=34,
    )


def test_train_when_a_config_is_given_then_trains_that_architecture_and_finds_its_run_again(tmp_path: Path) -> None:
    plan = TrainingPlan(vocabulary=100, epochs=1, max_length=32)
    config = small_config()
    found = train(cued(60), tmp_path / "run", plan, config=config)
    subject = tw.load(tmp_path / "run")
    assert type(subject.model).__name__ == "RobertaPreLayerNormForSequenceClassification"
    assert subject.model.config.num_hidden_layers == 2 and found.configuration["combine"] is None
    assert tw.explain(subject, "a film").scores.sum() == pytest.approx(1, abs=1e-5)
    config.transformers_version = "5.99"
    assert train(cued(60), tmp_path / "run", plan, config=config).seconds == found.seconds  # read, not trained again
    with pytest.raises(tw.InputError, match="another choice of architecture"):
        train(cued(60), tmp_path / "run", plan, config=small_config(inner=64))


def test_train_when_a_config_and_sizes_or_a_source_are_given_then_says_which_to_leave_out(
    tmp_path: Path, shipped: tw.Subject
) -> None:
    for plan, source, name in ((TrainingPlan(width=16), None, "width"), (TrainingPlan(), shipped, "init_from")):
        with pytest.raises(tw.InputError, match=f"{name} was given, but the config says"):
            train(cued(60), tmp_path / "run", plan, init_from=source, config=small_config())
    with pytest.raises(tw.InputError, match="max_length was given 64, but the model has positions for 3"):
        train(cued(60), tmp_path / "other", TrainingPlan(max_length=64, vocabulary=100), config=small_config())
