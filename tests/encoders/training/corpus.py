"""Examples whose label hangs on one word, and tiny classifiers that learn it."""

import random

import torch
from transformers import BertConfig, BertForSequenceClassification

from thalweg.encoders.training.data import LabelledTexts
from thalweg.encoders.training.plan import TrainingPlan

WORDS = "the a film story was about some people in town with dogs and cats who walked home late at night".split()
CUES = {"good": ("lovely", "witty"), "bad": ("dull", "stale")}
TINY = TrainingPlan(
    combine="con", key_size=4, width=16, heads=2, vocabulary=200, max_length=32, epochs=4, batch_tokens=256
)


def cued(count: int = 120, seed: int = 0) -> LabelledTexts:
    """Sentences of four to eleven words, one of which says it all."""
    chance = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        label = chance.choice(sorted(CUES))
        words: list[str] = chance.choices(WORDS, k=chance.randint(3, 10))
        words.insert(chance.randint(0, len(words)), chance.choice(CUES[label]))
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
