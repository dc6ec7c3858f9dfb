"""How often a classifier is right, and how far its attention can be read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from thalweg.encoders.training.loop import Score
from thalweg.encoders.training.result import Figures
from thalweg.identifiability.by_length import certified_length, trust
from thalweg.identifiability.result import Head, Layer
from thalweg.models.load import Subject
from thalweg.progress import progress
from thalweg.rates import Rate, Tally

CERTIFIED = 8  # texts, the longest ones

Ids = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Asked:
    """What a classifier said to some texts, and what would have been right."""

    logits: Float[Tensor, "text label"]
    gold: Int[Tensor, " text"]

    def score(self) -> Score:
        right = (self.logits.argmax(1) == self.gold).double().mean()
        return Score(float(cross_entropy(self.logits.double(), self.gold)), float(right))

    def accuracy(self) -> Rate:
        """The share of texts that were told right, with its interval: each text counts for itself."""
        tally = Tally()
        for hit in (self.logits.argmax(1) == self.gold).float():
            tally.add(hit[None])
        return tally.rate()


def figures(subject: Subject, texts: Sequence[str], ids: Ids, validation: Asked, test: Asked | None) -> Figures:
    """All that is said of a classifier; `ids` are those of the validation `texts` for its own tokenizer."""
    longest = sorted(ids, key=len, reverse=True)[:CERTIFIED]
    heads: list[Head] = []
    layers: list[Layer] = []
    with progress("certifying") as report:
        for done, row in enumerate(longest, 1):
            found = trust(subject, list(row))
            heads += found.heads
            layers += found.layers
            report(done, len(longest))
    certified, tried = certified_length(subject, texts)
    return Figures(
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
    """The number of each label."""
    numbers = {label: number for number, label in enumerate(known)}
    return torch.tensor([numbers[label] for label in labels])
