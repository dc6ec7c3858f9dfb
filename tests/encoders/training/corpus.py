"""Examples whose label depends on one word, tiny classifiers that learn it, and a run folder."""

import random
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.result import KIND
from thalweg.files.run_folder import RunFolder, open_run

WORDS = "the a film story was about some people in town with dogs and cats who walked home late at night".split()
CUES = {"good": ("lovely", "witty"), "bad": ("dull", "stale")}
TINY = TrainingPlan(
    combine="con", key_size=4, width=16, heads=2, vocabulary=200, max_length=32, epochs=4, batch_tokens=256
)


def cued(count: int = 120, seed: int = 0) -> LabelledTexts:
    """Sentences of four to eleven words, one of which determines the label."""
    rng = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        label = rng.choice(sorted(CUES))
        words: list[str] = rng.choices(WORDS, k=rng.randint(3, 10))
        words.insert(rng.randint(0, len(words)), rng.choice(CUES[label]))
        texts.append(" ".join(words))
        labels.append(label)
    return LabelledTexts(texts, labels)


def tiny_bert(
    seed: int = 0, vocabulary: int = 200, labels: tuple[str, ...] = ("bad", "good")
) -> BertForSequenceClassification:
    """A random classifier of one layer, with dropout."""
    names = dict(enumerate(labels))
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BertForSequenceClassification(config)


def training_run(folder: Path, seed: int = 0) -> AbstractContextManager[RunFolder]:
    """A run folder for the parts of training that write checkpoints."""
    return open_run(folder, KIND, {"seed": seed}, {})
