"""Subjects: states of a model in which it cannot be captured, and what identifies it."""

from pathlib import Path

import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME
from tests.refusals import assert_refused
from tests.tiny import SENTENCE, byte_level, save_folder, tiny_subject, wordpiece

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=["nan", "infinite"])
@pytest.mark.parametrize(
    ("parameter", "module"),
    [
        ("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm"),
        ("bert.encoder.layer.1.attention.self.query.weight", "bert.encoder.layer.1.attention.self.query"),
        ("bert.encoder.layer.1.attention.output.dense.weight", "bert.encoder.layer.1.attention.output.dense"),
        ("bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.dense"),
    ],
    ids=["embeddings", "query", "projection", "mlp"],
)
def test_weights_when_not_finite_then_the_first_affected_module_is_named(
    parameter: str, module: str, value: float
) -> None:
    subject = tiny_subject()
    with torch.no_grad():
        subject.model.get_parameter(parameter).flatten()[0] = value
    assert_refused(subject, lambda: subject.capture(SENTENCE), tw.ModelError, "NaN or infinite", f"'{module}'")


@pytest.mark.parametrize("parameter", ["bert.encoder.layer.2.output.dense.weight", "classifier.bias"])
def test_weights_when_only_the_logits_are_affected_then_are_refused(parameter: str) -> None:
    subject = tiny_subject()
    with torch.no_grad():
        subject.model.get_parameter(parameter).flatten()[0] = torch.nan
    assert_refused(subject, lambda: tw.explain(subject, SENTENCE), tw.ModelError, "NaN or infinite")


@pytest.mark.parametrize("part", ["", "bert.encoder.layer.1.attention.self.dropout"])
def test_model_when_in_training_mode_then_is_refused(part: str) -> None:
    subject = tiny_subject()
    subject.model.get_submodule(part).train()
    assert_refused(subject, lambda: subject.capture(SENTENCE), tw.ModelError, "training mode", "model.eval()")


def test_replay_when_the_model_is_in_training_mode_by_now_then_is_refused() -> None:
    subject = tiny_subject()
    capture = subject.capture(SENTENCE)
    subject.model.train()
    assert_refused(subject, lambda: capture.replay(lambda call: call.run()), tw.ModelError, "training mode")


def test_mamba_when_captured_then_is_refused() -> None:
    subject = tw.load(BY_NAME["mamba"].build(), wordpiece())
    assert_refused(subject, lambda: subject.capture(SENTENCE), tw.ModelError, "Mamba", "attention")


def test_identity_when_a_buffer_config_tokenizer_or_dtype_changes_then_that_part_changes() -> None:
    def changed(subject: tw.Subject) -> set[str]:
        return {name for name, value in subject.identity().items() if value != tiny_subject().identity()[name]}

    assert changed(tiny_subject()) == set()
    assert changed(tw.load(tiny_subject().model, byte_level())) == {"tokenizer"}
    assert changed(tw.load(tiny_subject().model)) == {"tokenizer"}
    subject = tiny_subject()
    next(iter(subject.model.buffers())).add_(1)
    assert changed(subject) == {"weights"}
    subject = tiny_subject()
    subject.model.config.layer_norm_eps = 0.5  # pyright: ignore[reportAttributeAccessIssue]
    assert changed(subject) == {"config"}
    subject = tiny_subject()
    subject.model.bfloat16()
    assert changed(subject) == {"weights", "dtype"}


def test_identity_when_the_model_was_saved_and_loaded_then_is_the_same(tmp_path: Path) -> None:
    assert tw.load(save_folder(tmp_path / "a")).identity() == tiny_subject().identity()


def test_anatomy_when_a_second_text_is_captured_then_is_not_learnt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = tiny_subject()
    subject.capture(SENTENCE)
    monkeypatch.delattr("thalweg.models.subject.learn")
    subject.capture("the cat")


def test_output_name_when_a_class_or_token_is_predicted_then_is_its_label_or_text() -> None:
    assert tiny_subject().output_name(1) == "LABEL_1"
    assert tiny_subject().output_name(None) is None
    assert tiny_subject("electra").output_name(28) == "cat"
    assert tw.load(BY_NAME["gpt2"].build()).output_name(7) == "7"


def test_capture_one_when_it_gets_a_capture_then_returns_it_unchanged() -> None:
    subject = tiny_subject()
    capture = subject.capture(SENTENCE)
    assert subject.capture_one(capture) is capture
    with pytest.raises(tw.InputError, match="one example"):
        subject.capture_one(["the cat", "a dog"])
