"""Figures of a classifier: accuracy and score of its predictions, and identifiability by length."""

from math import log

import pytest
import torch

import thalweg as tw
from thalweg.encoders.training.measure import Predictions, figures, gold_of
from thalweg.identifiability.by_length import certified_length, pieces_of

TEXT = "a gorgeous, witty, seductive movie that never quite manages to interest anyone in its places."


def test_predictions_when_scored_then_give_loss_and_accuracy() -> None:
    logits = torch.tensor([[log(3.0), 0.0], [0.0, log(3.0)], [log(3.0), 0.0], [0.0, 0.0]])  # ¾ or ½ for the best label
    predictions = Predictions(logits, torch.tensor([0, 1, 1, 0]))
    score = predictions.score()
    assert score.accuracy == predictions.accuracy().rate == 0.75
    assert score.loss == pytest.approx((2 * log(4 / 3) + log(4) + log(2)) / 4)
    assert predictions.accuracy().low < 0.75 < predictions.accuracy().high


def test_gold_when_labels_are_known_then_are_their_indices() -> None:
    assert gold_of(["b", "a", "b"], ("a", "b")).tolist() == [1, 0, 1]


def test_figures_when_measured_then_certify_the_longest_texts(bundled: tw.Subject) -> None:
    assert bundled.tokenizer is not None
    texts = [TEXT, "a witty movie."]
    ids: list[list[int]] = [bundled.tokenizer(text)["input_ids"] for text in texts]
    predictions = Predictions(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 1]))
    measured = figures(bundled, texts, ids, predictions, None)
    assert measured.validation.rate == 1.0
    assert measured.test is None
    assert measured.parameters == sum(weight.numel() for weight in bundled.model.parameters())
    assert (measured.certified_texts, measured.longest) == (2, max(map(len, ids)))
    assert measured.identifiable == 0.5  # all heads of the short text, none of the long one
    assert measured.certified_length <= measured.tried_length


def test_certified_length_when_measured_then_pieces_are_identifiable_and_longer_ones_are_not(
    bundled: tw.Subject,
) -> None:
    """17 tokens for the bundled model: values of 16 dimensions, and rows that sum to one."""
    texts = [TEXT] * 4
    assert certified_length(bundled, texts) == (17, 18)
    for length, expected in ((17, 40), (18, 0)):
        for piece in pieces_of(bundled, texts, [length], 4):
            assert tw.trust(bundled, piece).counts()["identifiable"] == expected
    assert certified_length(bundled, texts[0].split(",")[:1]) == (4, 4)
