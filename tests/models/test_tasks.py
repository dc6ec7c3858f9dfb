"""The task of a class, by its name."""

from typing import get_args

import pytest
import transformers

from thalweg.models.tasks import AUTO_CLASSES, CLASS_SUFFIXES, Task, task_of


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("BertForPreTraining", "masked_lm"),
        ("GPT2LMHeadModel", "causal_lm"),
        ("MarianMTModel", "seq2seq"),
        ("T5ForConditionalGeneration", "seq2seq"),
        ("WhisperForConditionalGeneration", "speech_seq2seq"),
        ("ViTForImageClassification", "image_classification"),
        ("BertModel", "encoder"),
        ("", "encoder"),
    ],
)
def test_task_when_named_by_a_class_then_is_known(name: str, task: Task) -> None:
    assert task_of(name) == task


def test_tasks_when_listed_then_each_has_an_auto_class_of_transformers() -> None:
    assert set(AUTO_CLASSES) == set(get_args(Task)) >= set(CLASS_SUFFIXES.values())
    assert all(hasattr(transformers, name) for name in AUTO_CLASSES.values())
