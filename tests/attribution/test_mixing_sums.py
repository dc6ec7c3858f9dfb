"""Mixing figures counted by hand, over one text and many."""

import numpy as np
import pytest

import thalweg as tw
from thalweg.attribution.mixing_result import DISTANCES, KINDS
from thalweg.attribution.mixing_sums import MixingSums
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
    figures = sums.means()
    assert figures.own[0] == pytest.approx((0.5 + 0.1 + 0.7) / 3)
    assert figures.not_own[0] == pytest.approx(1 / 3)
    assert figures.by_distance[0].tolist() == pytest.approx([(0.3 + 0.6 + 0.3 + 0.1) / 3, (0.2 + 0.2) / 3, 0, 0, 0, 0])
    by_kind = dict(zip(KINDS, figures.by_kind[0], strict=True))
    assert by_kind == pytest.approx(
        {"special": (0.5 + 0.6 + 0.2) / 3, "content": (0.3 + 0.1 + 0.1) / 3, "punctuation": (0.2 + 0.3 + 0.7) / 3}
    )


def test_figures_when_maps_are_sizes_then_are_shares_of_them() -> None:
    full = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.2, 0.1, 0.7]])
    figures = []
    for scale in (1.0, 40.0):
        sums = MixingSums(1)
        sums.add(scale * full[None], tokens("[CLS]", "cat", "."), np.ones((1, 3), dtype=bool), RECEIPT)
        figures.append(sums.means())
    np.testing.assert_allclose(figures[1].own, figures[0].own)
    np.testing.assert_allclose(figures[1].by_kind, figures[0].by_kind)
    report = tw.mixing(tw.load(), SENTENCE, ["globenc"]).figures["globenc"]  # whose maps are norms
    assert (report.own <= 1).all()
    np.testing.assert_allclose(report.by_kind.sum(1), 1)


def test_figures_when_texts_are_added_then_are_means_over_all_tokens() -> None:
    first, second = np.eye(2), np.full((3, 3), 1 / 3)
    sums = MixingSums(1)
    sums.add(first[None], tokens("a", "b"), np.ones((1, 2), dtype=bool), RECEIPT)
    worse = Receipt({"parity": Check((3e-7,), 2e-5)}, {"figure": 0.5}, ("that",))
    sums.add(second[None], tokens("a", "b", "c"), np.ones((1, 3), dtype=bool), worse)
    figures = sums.means()
    assert figures.own[0] == pytest.approx((2 + 1) / 5)
    assert figures.receipt.checks["parity"] == Check((3e-7,), 2e-5)
    assert figures.receipt.figures == {"figure": 1.0}
    assert figures.receipt.assumed == ("this", "that")


def test_figures_when_there_are_two_texts_in_one_pass_then_only_updated_rows_count_and_have_distances() -> None:
    full = np.full((4, 4), 0.25)
    updated = np.array([[False, False, True, True]])
    sums = MixingSums(1)
    sums.add(full[None], tokens("a", "b", "c", "d", segments=(0, 0, 1, 1)), updated, RECEIPT)
    figures = sums.means()
    assert figures.own[0] == 0.25
    assert figures.by_distance[0].tolist() == [0.25, 0, 0, 0, 0, 0]  # the other half came from the other text


def test_far_neighbours_when_counted_then_fall_into_the_groups_of_the_paper() -> None:
    count = 14
    full = np.zeros((count, count))
    full[0] = 1 / count
    updated = np.zeros((1, count), dtype=bool)
    updated[0, 0] = True
    sums = MixingSums(1)
    sums.add(full[None], tokens(*"abcdefghijklmn"), updated, RECEIPT)
    shares = dict(zip(DISTANCES, sums.means().by_distance[0] * count, strict=True))
    assert shares == pytest.approx({"1st": 1, "2nd": 1, "3rd": 1, "4–5": 2, "6–10": 5, "11+": 3})
