"""Figures of mixing: counted by hand, over one text and many, from the input and from layer to layer."""

import json

import numpy as np
import pytest

import thalweg as tw
from tests.architectures import captured
from tests.families import BY_NAME
from thalweg.attribution.mixing_sums import MixingSums
from thalweg.attribution.result import DISTANCES, KINDS
from thalweg.receipt import Check, Receipt
from thalweg.tokens import Tokens

SENTENCE = "a gorgeous, witty movie."
RECEIPT = Receipt({"parity": Check((1e-7,), 1e-5)}, {"figure": 1.0}, ("this",))


def tokens(*pieces: str, segments: tuple[int, ...] | None = None) -> Tokens:
    nothing = (None,) * len(pieces)
    special = tuple(piece.startswith("[") for piece in pieces)
    return Tokens(pieces, nothing, special, nothing, nothing, segments or (0,) * len(pieces), (None, None))


def test_figures_when_a_map_is_small_then_are_counted_as_by_hand() -> None:
    full = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.2, 0.1, 0.7]])
    sums = MixingSums(1)
    sums.add(full[None], tokens("[CLS]", "cat", "."), np.ones((1, 3), dtype=bool), RECEIPT)
    found = sums.means()
    assert found.own[0] == pytest.approx((0.5 + 0.1 + 0.7) / 3)
    assert found.not_own[0] == pytest.approx(1 / 3)
    assert found.by_distance[0].tolist() == pytest.approx([(0.3 + 0.6 + 0.3 + 0.1) / 3, (0.2 + 0.2) / 3, 0, 0, 0, 0])
    by_kind = dict(zip(KINDS, found.by_kind[0], strict=True))
    assert by_kind == pytest.approx(
        {"special": (0.5 + 0.6 + 0.2) / 3, "content": (0.3 + 0.1 + 0.1) / 3, "punctuation": (0.2 + 0.3 + 0.7) / 3}
    )


def test_figures_when_maps_are_sizes_then_are_shares_of_them() -> None:
    full = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.2, 0.1, 0.7]])
    found = []
    for scale in (1.0, 40.0):
        sums = MixingSums(1)
        sums.add(scale * full[None], tokens("[CLS]", "cat", "."), np.ones((1, 3), dtype=bool), RECEIPT)
        found.append(sums.means())
    np.testing.assert_allclose(found[1].own, found[0].own)
    np.testing.assert_allclose(found[1].by_kind, found[0].by_kind)
    report = tw.mixing(tw.load(), SENTENCE, ["globenc"]).figures["globenc"]  # whose maps are norms
    assert (report.own <= 1).all()
    np.testing.assert_allclose(report.by_kind.sum(1), 1)


def test_figures_when_texts_are_added_then_are_means_over_all_tokens() -> None:
    first, second = np.eye(2), np.full((3, 3), 1 / 3)
    sums = MixingSums(1)
    sums.add(first[None], tokens("a", "b"), np.ones((1, 2), dtype=bool), RECEIPT)
    worse = Receipt({"parity": Check((3e-7,), 2e-5)}, {"figure": 0.5}, ("that",))
    sums.add(second[None], tokens("a", "b", "c"), np.ones((1, 3), dtype=bool), worse)
    found = sums.means()
    assert found.own[0] == pytest.approx((2 + 1) / 5)
    assert found.receipt.checks["parity"] == Check((3e-7,), 2e-5)
    assert found.receipt.figures == {"figure": 1.0}
    assert found.receipt.assumed == ("this", "that")


def test_figures_when_there_are_two_texts_in_one_pass_then_only_touched_rows_count_and_have_distances() -> None:
    full = np.full((4, 4), 0.25)
    touched = np.array([[False, False, True, True]])
    sums = MixingSums(1)
    sums.add(full[None], tokens("a", "b", "c", "d", segments=(0, 0, 1, 1)), touched, RECEIPT)
    found = sums.means()
    assert found.own[0] == 0.25
    assert found.by_distance[0].tolist() == [0.25, 0, 0, 0, 0, 0]  # the other half came from the other text


def test_far_neighbours_when_counted_then_fall_into_the_groups_of_the_paper() -> None:
    count = 14
    full = np.zeros((count, count))
    full[0] = 1 / count
    touched = np.zeros((1, count), dtype=bool)
    touched[0, 0] = True
    sums = MixingSums(1)
    sums.add(full[None], tokens(*"abcdefghijklmn"), touched, RECEIPT)
    shares = dict(zip(DISTANCES, sums.means().by_distance[0] * count, strict=True))
    assert shares == pytest.approx({"1st": 1, "2nd": 1, "3rd": 1, "4–5": 2, "6–10": 5, "11+": 3})


def test_mixing_when_asked_layer_by_layer_then_has_the_diagonals_of_the_maps(shipped: tw.Subject) -> None:
    report = tw.mixing(shipped, SENTENCE, methods=["alti", "attention_rollout"], start="layer")
    per_layer = tw.explain(shipped, SENTENCE, "alti", "all").per_layer
    assert per_layer is not None
    np.testing.assert_allclose(report.own["alti"], per_layer.diagonal(axis1=1, axis2=2).mean(1), atol=1e-6)
    assert (report.own["attention_rollout"] > 0.5).all()


def test_mixing_when_asked_from_the_embeddings_then_ends_at_what_explain_says(shipped: tw.Subject) -> None:
    report = tw.mixing(shipped, SENTENCE, methods=["alti", "hidden_token_attribution"])
    for method in report.figures:
        whole = tw.explain(shipped, SENTENCE, method, "all").scores
        assert report.own[method][-1] == pytest.approx(whole.diagonal().mean(), abs=1e-3)
    for one in report.figures.values():
        np.testing.assert_allclose(one.own + one.by_distance.sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(one.by_kind.sum(1), 1, atol=1e-5)
        assert one.receipt.checks["parity"].worst <= one.receipt.checks["parity"].allowed
    assert (np.diff(report.own["alti"]) < 0).all()
    json.dumps(report.to_dict(), allow_nan=False)


def test_mixing_when_given_a_list_of_texts_then_weighs_them_by_their_tokens(shipped: tw.Subject) -> None:
    texts = ["a witty movie.", SENTENCE]
    both = tw.mixing(shipped, texts, methods=["norm_based"])
    assert (both.texts, both.tokens) == (2, 6 + 8)
    alone = [tw.mixing(shipped, text, methods=["norm_based"]) for text in texts]
    expected = sum(one.own["norm_based"] * one.tokens for one in alone) / both.tokens
    np.testing.assert_allclose(both.own["norm_based"], expected)


def test_mixing_when_the_model_is_an_encoder_decoder_then_each_layer_counts_its_own_tokens() -> None:
    family = BY_NAME["t5"]
    report = tw.mixing(tw.load(family.build()), captured(family), methods=["alti"])
    assert len(report.own["alti"]) == len(captured(family).blocks)
    assert np.isfinite(report.own["alti"]).all()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"methods": ["raw_attention"]}, "no map for every layer"),
        ({"methods": []}, "one or more"),
        ({"methods": "alti"}, "one or more"),
        ({"methods": ["alti", "alti"]}, "different"),
        ({"methods": ["alti"], "start": "top"}, "start was given 'top'"),
    ],
)
def test_mixing_when_asked_for_what_is_not_there_then_says_so(shipped: tw.Subject, options: dict, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        tw.mixing(shipped, SENTENCE, **options)
