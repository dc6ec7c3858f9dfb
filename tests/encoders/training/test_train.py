"""From examples to a model folder: loaded, resumed, refused, and the same after a kill."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, BertTokenizer, RobertaPreLayerNormConfig

import thalweg as tw
from tests.encoders.training.corpus import TINY, cued, tiny_bert, training_run
from tests.tiny import snapshot, tiny_subject, wordpiece
from thalweg.encoders.training import loop
from thalweg.encoders.training.batches import predict
from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.loop import CHECKPOINT, TrainingState, ValidationScore
from thalweg.encoders.training.measure import Predictions, gold_of
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.result import KIND, RESULT, Training
from thalweg.encoders.training.teacher import training_loss
from thalweg.encoders.training.tokenizer import learn_tokenizer, token_ids
from thalweg.encoders.training.train import train
from thalweg.errors import DamagedFileWarning
from thalweg.files.run_folder import DIGESTS, HEADER, LOCK, RunFolder, read_header

EXAMPLES, TEST = cued(240), cued(40, seed=1)
PLAN = replace(TINY, rate=1e-2)
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
ROOT = Path(__file__).parents[3]


def same_weights(first: str | Path, second: str | Path) -> bool:
    weights, others = (load_file(Path(folder) / "model.safetensors") for folder in (first, second))
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_classifier_when_trained_then_is_accurate_and_reports_it(trained: Training) -> None:
    figures = trained.figures
    assert figures.test is not None
    assert figures.test.rate > 0.9
    assert figures.test.low < figures.test.rate < figures.test.high + 1e-9
    assert figures.validation.rate == trained.history[trained.best_epoch - 1].validation_accuracy
    assert trained.counts["training examples"] + trained.counts["validation examples"] == 240
    assert trained.labels == ("bad", "good")
    assert trained.seconds > 0


def test_folder_when_finished_then_is_a_model_that_can_be_loaded_and_explained(trained: Training) -> None:
    folder = Path(trained.folder)
    assert names(folder) == MODEL_FILES | {RESULT, HEADER, LOCK, DIGESTS}
    subject = tw.load(folder)
    assert sum(p.numel() for p in subject.model.parameters()) == trained.figures.parameters
    assert tw.explain(subject, "the story was lovely").prediction == "good"
    assert tw.explain(subject, "the story was stale").prediction == "bad"
    assert 0 < trained.figures.certified_length <= trained.figures.tried_length


def test_run_when_finished_then_the_same_call_only_reads_it(trained: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("thalweg.encoders.training.train.fit")
    assert train(EXAMPLES, trained.folder, PLAN, test=TEST) == trained


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"plan": replace(PLAN, rate=0.5)}, r"different rate \(0.01 there, 0.5 here\)"),
        ({"plan": replace(PLAN, heads=4, seed=9)}, r"heads \(2 there, 4 here\), seed \(0 there, 9 here\)"),
        ({"examples": cued(241)}, "training examples"),
        ({"test": None}, "test examples"),
        ({"tokenizer": wordpiece()}, "tokenizer"),
        ({"teacher": True}, "teacher weights .*teacher config .*teacher tokenizer"),
    ],
)
def test_run_when_its_identity_differs_then_is_refused(trained: Training, changes: dict, fact: str) -> None:
    arguments = {"examples": EXAMPLES, "out": trained.folder, "plan": PLAN, "test": TEST, **changes}
    if arguments.pop("teacher", False):
        arguments["teacher"] = tw.load(tiny_bert().eval(), learn_tokenizer(EXAMPLES.texts, 200))
    with pytest.raises(tw.InputError, match=fact):
        train(**arguments)


def test_run_when_the_teacher_has_another_config_or_tokenizer_then_is_refused_by_name(tmp_path: Path) -> None:
    plan, tokenizer = replace(PLAN, epochs=1), learn_tokenizer(EXAMPLES.texts, 200)
    teacher = tw.load(tiny_bert().eval(), tokenizer)
    train(EXAMPLES, tmp_path, plan, teacher=teacher)
    cased = BertTokenizer(vocab=tokenizer.get_vocab(), do_lower_case=False)
    with pytest.raises(tw.InputError, match=r"different teacher tokenizer \([^,]*, [^,]*\);"):
        train(EXAMPLES, tmp_path, plan, teacher=tw.load(teacher.model, cased))
    teacher.model.config.layer_norm_eps = 0.5  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(tw.InputError, match=r"different teacher config \([^,]*, [^,]*\);"):
        train(EXAMPLES, tmp_path, plan, teacher=teacher)


def test_folder_when_it_holds_other_files_then_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(tw.InputError, match=r"not part of a training run \(thesis\.txt\)"):
        train(EXAMPLES, tmp_path, TINY)
    with pytest.raises(tw.InputError, match="is a file"):
        train(EXAMPLES, tmp_path / "thesis.txt", TINY)
    assert names(tmp_path) == {"thesis.txt"}


def test_sizes_when_inconsistent_then_nothing_is_written(tmp_path: Path) -> None:
    for sizes in ({"width": 15}, {"value_size": 17}):
        with pytest.raises(tw.InputError):
            train(EXAMPLES, tmp_path / "out", replace(TINY, **sizes))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stage", ["fit", "figures", "_save"])
def test_run_when_interrupted_at_any_stage_then_resumes_to_the_same_model(
    stage: str, trained: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"thalweg.encoders.training.train.{stage}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(EXAMPLES, tmp_path, PLAN, test=TEST)
    with pytest.raises(tw.InputError, match="no finished training"):
        Training.load(tmp_path)
    (tmp_path / f"{CHECKPOINT}abc.draft").write_text("incomplete")  # left by a kill during a write
    resumed = train(EXAMPLES, tmp_path, PLAN, test=TEST)
    assert same_weights(tmp_path, trained.folder)
    assert replace(resumed, folder=trained.folder, seconds=trained.seconds) == trained
    assert names(tmp_path) == MODEL_FILES | {RESULT, HEADER, LOCK, DIGESTS}


WRITER = """
import sys, time
from dataclasses import replace
import torch
from tests.encoders.training.corpus import TINY, cued
from thalweg.encoders.training import loop
from thalweg.encoders.training.train import train
from thalweg.files.run_folder import RunFolder
torch.set_num_threads(1)
loop.CHECKPOINT_SECONDS = 0.0
write, written = RunFolder.write_tensors, []

def pausing(self, *rest):
    write(self, *rest)
    written.append(rest)
    if len(written) == 40:
        print("paused", flush=True)
        time.sleep(600)

RunFolder.write_tensors = pausing
train(cued(240), sys.argv[1], replace(TINY, rate=1e-2, epochs=1000, patience=1000))
"""


def test_run_when_another_process_writes_then_is_refused_and_resumes_to_the_same_weights_after_its_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plan = tmp_path / "killed", replace(TINY, rate=1e-2, epochs=1000, patience=1000)
    command = [sys.executable, "-c", WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "paused\n"
            with pytest.raises(tw.InputError, match="another process is writing"):
                train(EXAMPLES, folder, plan)
        finally:
            writer.send_signal(signal.SIGKILL)

    def checkpoint(out: Path) -> tuple[dict, dict]:
        tensors = RunFolder(out, KIND, read_header(out, KIND)).read_tensors(CHECKPOINT)
        assert tensors is not None
        return tensors

    step = checkpoint(folder)[1]["step"]
    assert step > 0

    class EnoughError(Exception):
        pass

    update = TrainingState.update

    def limited(self: TrainingState, *rest: object) -> None:
        if self.step == step + 5:
            raise EnoughError
        update(self, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(TrainingState, "update", limited)
    for out in (folder, tmp_path / "uninterrupted"):
        with pytest.raises(EnoughError):
            train(EXAMPLES, out, plan)
    (resumed, header), (uninterrupted, other) = checkpoint(folder), checkpoint(tmp_path / "uninterrupted")
    assert header["step"] == other["step"] == step + 5
    assert header["history"] == other["history"]
    assert all(torch.equal(tensor, uninterrupted[name]) for name, tensor in resumed.items())


KILLED = """
import os, signal, sys
from dataclasses import replace
import torch
from tests.encoders.training.corpus import TINY, cued
from thalweg.encoders.training.result import RESULT
from thalweg.encoders.training.train import train
from thalweg.files.run_folder import RunFolder
torch.set_num_threads(1)
write = RunFolder.write_json

def killed(self, name, value):
    if name == RESULT:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, name, value)

RunFolder.write_json = killed
train(cued(240), sys.argv[1], replace(TINY, rate=1e-2), test=cued(40, seed=1))
"""


def test_model_when_the_run_was_killed_before_its_result_then_can_be_loaded_and_the_run_resumes(
    trained: Training, tmp_path: Path
) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    assert names(tmp_path) == MODEL_FILES | {HEADER, LOCK, DIGESTS, CHECKPOINT}
    assert tw.explain(tw.load(tmp_path), "the story was lovely").prediction == "good"
    assert type(AutoModel.from_pretrained(tmp_path)).__name__ == "IdentifiableModel"
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert classifier.config.id2label == {0: "bad", 1: "good"}
    assert train(EXAMPLES, tmp_path, PLAN, test=TEST).figures == trained.figures
    assert same_weights(tmp_path, trained.folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tw.Subject:
    """A BERT classifier that knows the cues, with its labels in reverse order."""
    tokenizer = learn_tokenizer(EXAMPLES.texts, 200)
    model, labels = tiny_bert(labels=("good", "bad"), vocabulary=len(tokenizer)), ("good", "bad")
    ids, gold = token_ids(tokenizer, EXAMPLES.texts, 32), gold_of(EXAMPLES.labels, labels)

    def validate() -> ValidationScore:
        return Predictions(predict(model, ids, 0), gold).score()

    with training_run(tmp_path_factory.mktemp("bert")) as run:
        loop.fit(model, ids, 0, training_loss(gold, None), validate, replace(PLAN, epochs=8), run)
    return tw.load(model, tokenizer)


def test_classifier_when_made_more_identifiable_then_is_no_worse_and_reports_both(
    bert: tw.Subject, tmp_path: Path
) -> None:
    before = snapshot(bert.model)
    plan = TrainingPlan(combine="add", epochs=2, rate=1e-2, max_length=32)
    result = train(EXAMPLES, tmp_path, plan, test=TEST, init_from=bert, teacher=bert)
    assert snapshot(bert.model) == before
    assert result.teacher is not None
    assert result.labels == ("good", "bad")
    assert result.inherited is not None
    assert result.inherited.approximate == result.inherited.fresh == ()
    assert result.history[0].number == 0
    assert result.history[0].training_loss is None
    assert result.history[0].validation_accuracy == result.teacher.validation.rate
    assert result.figures.validation.rate >= result.teacher.validation.rate
    assert result.figures.certified_length > result.teacher.certified_length
    assert result.figures.identifiable > result.teacher.identifiable
    assert tw.explain(tw.load(tmp_path), "a lovely story").prediction == "good"
    assert Training.load(tmp_path) == result


def test_weights_when_inherited_then_improve_accuracy(bert: tw.Subject, tmp_path: Path) -> None:
    examples = EXAMPLES.at(range(20))
    plan = replace(PLAN, heads=None, width=None, key_size=2, epochs=1, rate=1e-4)
    inherited = train(examples, tmp_path / "a", plan, validation=TEST, init_from=tw.load(bert.model, bert.tokenizer))
    scratch = train(examples, tmp_path / "b", replace(plan, width=16, heads=2), validation=TEST)
    assert inherited.inherited is not None
    assert inherited.inherited.approximate == ("layers.0.self_attn",)
    assert inherited.figures.validation.rate > scratch.figures.validation.rate
    assert scratch.inherited is None


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"plan": TrainingPlan(width=32)}, "width .*init_from"),
        ({"plan": TrainingPlan(heads=4)}, "heads .*init_from"),
        ({"plan": TrainingPlan(layers=2)}, "layers .*between 1 and 1.*got 2"),
        ({"plan": TrainingPlan(max_length=33)}, "max_length .*32.*got 33"),
        ({"tokenizer": wordpiece()}, "tokenizer .*init_from"),
        ({"init_from": tw.load(tiny_bert().eval())}, "needs a tokenizer"),
        ({"init_from": tw.load(tiny_bert(vocabulary=50).eval(), wordpiece())}, "embeddings for 50"),
        ({"init_from": tiny_subject("gpt2")}, "cannot inherit from a GPT2"),
    ],
)
def test_initial_model_when_unsuitable_then_nothing_is_written(
    bert: tw.Subject, tmp_path: Path, changes: dict, fact: str
) -> None:
    with pytest.raises(tw.InputError, match=fact):
        train(**{"examples": EXAMPLES, "out": tmp_path / "out", "init_from": bert, **changes})
    assert not (tmp_path / "out").exists()


def test_examples_when_of_one_class_then_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="two labels"):
        train(LabelledTexts(["a", "b", "c"], ["x"] * 3), tmp_path / "out", TINY)
    assert not (tmp_path / "out").exists()


def test_run_when_it_diverged_then_the_folder_is_free_for_another(tmp_path: Path) -> None:
    with pytest.raises(tw.InputError, match="rate below"):
        train(EXAMPLES, tmp_path / "out", replace(PLAN, rate=1e20))
    assert names(tmp_path / "out") == {HEADER, LOCK, DIGESTS}
    assert train(EXAMPLES, tmp_path / "out", replace(PLAN, epochs=1)).history


def test_run_when_a_text_has_no_tokens_then_the_folder_is_free_for_another(tmp_path: Path) -> None:
    empty = LabelledTexts([*EXAMPLES.texts, "\u200b"], [*EXAMPLES.labels, "good"])
    with pytest.raises(tw.InputError, match="no tokens"):
        train(empty, tmp_path, replace(PLAN, epochs=1), validation=TEST)
    assert train(EXAMPLES, tmp_path, replace(PLAN, epochs=1), validation=TEST).history


@pytest.mark.parametrize("kind", [OSError, SafetensorError])
def test_run_when_the_disk_is_full_then_keeps_its_checkpoint(
    trained: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def full(*_: object) -> None:
        raise kind(os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr("thalweg.encoders.model.IdentifiableForSequenceClassification.save_pretrained", full)
        with pytest.raises(tw.InputError, match=r"No space left.*resumes"):
            train(EXAMPLES, tmp_path, PLAN, test=TEST)
    assert names(tmp_path) == {HEADER, LOCK, DIGESTS, CHECKPOINT}
    assert train(EXAMPLES, tmp_path, PLAN, test=TEST).figures == trained.figures


def test_run_when_no_checkpoint_fits_on_the_disk_then_the_error_explains_it_and_nothing_is_left(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(tw.InputError, match=r"cannot write to .*large.*resumes"):
            train(EXAMPLES, tmp_path, PLAN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == {HEADER, LOCK, DIGESTS}


@pytest.mark.parametrize("name", sorted({*MODEL_FILES, RESULT}))
def test_model_when_a_file_of_it_is_damaged_then_is_trained_again_to_the_same_weights(
    trained: Training, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)
    with pytest.warns(DamagedFileWarning, match=name):
        train(EXAMPLES, folder, PLAN, test=TEST)
    assert same_weights(folder, trained.folder)
    assert Training.load(folder).figures == trained.figures


def test_tokenizer_when_it_treats_the_same_vocabulary_differently_then_is_another_run(tmp_path: Path) -> None:
    vocabulary = learn_tokenizer(EXAMPLES.texts, 200).get_vocab()
    lower, cased = (BertTokenizer(vocab=vocabulary, do_lower_case=lower) for lower in (True, False))
    train(EXAMPLES, tmp_path / "out", replace(PLAN, epochs=1), tokenizer=lower)
    with pytest.raises(tw.InputError, match="different tokenizer"):
        train(EXAMPLES, tmp_path / "out", replace(PLAN, epochs=1), tokenizer=cased)


def small_config(inner: int = 32) -> RobertaPreLayerNormConfig:
    return RobertaPreLayerNormConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=inner,
        max_position_embeddings=34,
    )


def test_train_when_called_with_a_config_then_trains_that_architecture_and_resumes_its_run(tmp_path: Path) -> None:
    plan = TrainingPlan(vocabulary=100, epochs=1, max_length=32)
    config = small_config()
    result = train(cued(60), tmp_path / "run", plan, config=config)
    subject = tw.load(tmp_path / "run")
    assert type(subject.model).__name__ == "RobertaPreLayerNormForSequenceClassification"
    assert subject.model.config.num_hidden_layers == 2 and result.configuration["combine"] is None
    assert tw.explain(subject, "a film").scores.sum() == pytest.approx(1, abs=1e-5)
    config.transformers_version = "5.99"
    assert train(cued(60), tmp_path / "run", plan, config=config).seconds == result.seconds  # read, not trained again
    with pytest.raises(tw.InputError, match=r"different config \("):
        train(cued(60), tmp_path / "run", plan, config=small_config(inner=64))


def test_train_when_a_config_conflicts_with_other_options_then_says_which_to_omit(
    tmp_path: Path, bundled: tw.Subject
) -> None:
    for plan, source, name in ((TrainingPlan(width=16), None, "width"), (TrainingPlan(), bundled, "init_from")):
        with pytest.raises(tw.InputError, match=f"{name} .*config.*omit"):
            train(cued(60), tmp_path / "run", plan, init_from=source, config=small_config())
    with pytest.raises(tw.InputError, match=r"max_length .*3[0-9].*got 64"):
        train(cued(60), tmp_path / "other", TrainingPlan(max_length=64, vocabulary=100), config=small_config())
