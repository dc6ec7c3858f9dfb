"""Mixing of texts: layer by layer, from the embeddings, over several texts."""

import json

import numpy as np
import pytest

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME

SENTENCE = "a gorgeous, witty movie."


def test_mixing_when_started_at_each_layer_then_has_the_diagonals_of_the_maps(bundled: tw.Subject) -> None:
    report = tw.mixing(bundled, SENTENCE, methods=["alti", "attention_rollout"], start="layer")
    per_layer = tw.explain(bundled, SENTENCE, "alti", "all").per_layer
    assert per_layer is not None
    np.testing.assert_allclose(report.own["alti"], per_layer.diagonal(axis1=1, axis2=2).mean(1), atol=1e-6)
    assert (report.own["attention_rollout"] > 0.5).all()


def test_mixing_when_started_at_the_embeddings_then_ends_at_the_scores_of_explain(bundled: tw.Subject) -> None:
    report = tw.mixing(bundled, SENTENCE, methods=["alti", "hidden_token_attribution"])
    for method in report.figures:
        scores = tw.explain(bundled, SENTENCE, method, "all").scores
        assert report.own[method][-1] == pytest.approx(scores.diagonal().mean(), abs=1e-3)
    for figures in report.figures.values():
        np.testing.assert_allclose(figures.own + figures.by_distance.sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(figures.by_kind.sum(1), 1, atol=1e-5)
        assert figures.receipt.checks["parity"].worst <= figures.receipt.checks["parity"].allowed
    assert (np.diff(report.own["alti"]) < 0).all()
    json.dumps(report.to_dict(), allow_nan=False)


def test_mixing_when_passed_several_texts_then_weighs_them_by_their_tokens(bundled: tw.Subject) -> None:
    texts = ["a witty movie.", SENTENCE]
    both = tw.mixing(bundled, texts, methods=["norm_based"])
    assert (both.texts, both.tokens) == (2, 6 + 8)
    alone = [tw.mixing(bundled, text, methods=["norm_based"]) for text in texts]
    expected = sum(single.own["norm_based"] * single.tokens for single in alone) / both.tokens
    np.testing.assert_allclose(both.own["norm_based"], expected)


def test_mixing_when_the_model_is_an_encoder_decoder_then_each_layer_counts_its_own_tokens() -> None:
    family = BY_NAME["t5"]
    report = tw.mixing(tw.load(family.build()), captured(family), methods=["alti"])
    assert len(report.own["alti"]) == len(captured(family).blocks)
    assert np.isfinite(report.own["alti"]).all()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"methods": ["raw_attention"]}, "no map for every layer"),
        ({"methods": []}, "one or more"),
        ({"methods": "alti"}, "one or more"),
        ({"methods": ["alti", "alti"]}, "different"),
        ({"methods": ["alti"], "start": "top"}, "embeddings, layer, got 'top'"),
    ],
)
def test_mixing_when_an_option_is_wrong_then_the_error_names_it(bundled: tw.Subject, options: dict, fact: str) -> None:
    with pytest.raises(tw.InputError, match=fact):
        tw.mixing(bundled, SENTENCE, **options)


def test_mixing_when_texts_are_pairs_then_is_the_mean_over_them(bundled: tw.Subject) -> None:
    pairs: list[tuple[str, str]] = [("a witty movie.", "dull."), ("far too long.", "a mess.")]
    both, first, second = (tw.mixing(bundled, texts, ["alti"]) for texts in (pairs, pairs[0], pairs[1]))
    assert (both.texts, first.texts) == (2, 1)
    assert both.tokens == first.tokens + second.tokens
