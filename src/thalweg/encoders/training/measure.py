"""Figures of a classifier: its accuracy, and the identifiability of its attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from thalweg.encoders.training.loop import ValidationScore
from thalweg.encoders.training.result import ClassifierFigures
from thalweg.identifiability.by_length import certified_length
from thalweg.identifiability.certificate import certify
from thalweg.identifiability.result import Head, Layer
from thalweg.models.subject import Subject
from thalweg.progress import progress
from thalweg.rates import Rate, Tally

CERTIFIED_TEXTS = 8  # the longest ones

Ids = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The logits of a classifier for some texts, and their gold labels."""

    logits: Float[Tensor, "text label"]
    gold: Int[Tensor, " text"]

    def score(self) -> ValidationScore:
        hits = self.logits.argmax(1) == self.gold
        return ValidationScore(float(cross_entropy(self.logits.double(), self.gold)), float(hits.double().mean()))

    def accuracy(self) -> Rate:
        """The share of correct predictions with its interval; texts count as independent."""
        tally = Tally()
        for hit in (self.logits.argmax(1) == self.gold).float():
            tally.add(hit[None])
        return tally.rate()


def figures(
    subject: Subject, texts: Sequence[str], ids: Ids, validation: Predictions, test: Predictions | None
) -> ClassifierFigures:
    """Measure a classifier; `ids` are the token ids of the validation `texts` with its own tokenizer."""
    longest = sorted(ids, key=len, reverse=True)[:CERTIFIED_TEXTS]
    heads: list[Head] = []
    layers: list[Layer] = []
    with progress("certifying") as report:
        for done, row in enumerate(longest, 1):
            certificate = certify(subject.capture_one(list(row)))
            heads += certificate.heads
            layers += certificate.layers
            report(done, len(longest))
    certified, tried = certified_length(subject, texts)
    return ClassifierFigures(
        validation=validation.accuracy(),
        test=None if test is None else test.accuracy(),
        parameters=sum(weight.numel() for weight in subject.model.parameters()),
        certified_length=certified,
        tried_length=tried,
        identifiable=sum(head.determined for head in heads) / len(heads),
        separable=sum(layer.separable for layer in layers) / len(layers),
        certified_texts=len(longest),
        longest=len(longest[0]),
    )


def gold_of(labels: Sequence[str], known: Sequence[str]) -> Int[Tensor, " text"]:
    """The index of each label among the known ones."""
    indices = {label: index for index, label in enumerate(known)}
    return torch.tensor([indices[label] for label in labels])
