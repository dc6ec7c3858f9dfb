"""Packed attributions: values kept, entries dropped, positions and headlines."""

import numpy as np
import pytest

from tests.attribution.handmade import FIVE, SCORES, THREE, attribution
from thalweg.attribution import packed as module
from thalweg.attribution.packed import POOLED, describe, headline, pack_attribution, positions_of
from thalweg.drawing.payload import Arrays
from thalweg.tokens import anonymous

LAYERS = np.stack([SCORES, np.eye(3)])


def test_pack_when_the_text_is_short_then_keeps_every_score_and_map() -> None:
    packed = pack_attribution(attribution(per_layer=LAYERS, chain="product"), (0, 1, 2))
    np.testing.assert_allclose(packed.scores.unpacked(), SCORES, atol=1e-5)
    assert packed.layers is not None
    np.testing.assert_allclose(packed.layers.unpacked().reshape(2, 3, 3), LAYERS, atol=3e-3)
    np.testing.assert_allclose(packed.received([0, 1]), SCORES[:2].mean(0), atol=1e-5)


def test_pack_when_maps_do_not_combine_into_the_scores_then_drops_them() -> None:
    assert pack_attribution(attribution(per_layer=LAYERS, chain=None), (0, 1, 2)).layers is None


def test_pack_when_the_budget_is_small_then_keeps_the_largest_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCORE_BYTES", 12)  # four bytes for each of three rows
    packed = pack_attribution(attribution(), (0, 1, 2))
    np.testing.assert_allclose(packed.scores.unpacked(), [[0.5, 0, 0], [0, 0, 0.6], [0, 0, 0.6]], atol=1e-5)


def test_explains_when_a_target_has_no_row_then_is_false() -> None:
    packed = pack_attribution(attribution(SCORES[:2], THREE.select((0, 2))), (0, 2))
    assert packed.explains([2])
    assert not packed.explains([1, 2])


def test_positions_when_targets_are_selected_sources_then_are_their_places() -> None:
    assert positions_of(attribution()) == (0, 1, 2)
    assert positions_of(attribution(SCORES[:2], THREE.select((2, 0)))) == (2, 0)
    specials = attribution(np.ones((2, 5)) / 5, FIVE.select((0, 4)), FIVE)
    assert positions_of(specials) == (0, 4)


def test_positions_when_the_target_is_not_a_source_then_is_pooled() -> None:
    assert positions_of(attribution(SCORES[:1], anonymous(1))) == (POOLED,)


def test_headline_when_a_method_explains_the_target_then_names_its_largest_sources() -> None:
    packed = [pack_attribution(attribution(SCORES[:1], THREE.select((0,))), (0,))]
    assert headline(packed, THREE, (0,), "LABEL_1") == (
        "By raw_attention, the prediction ‘LABEL_1’ comes mostly from un (0.50), happy (0.30), film (0.20)."
    )
    assert "‘un’" in headline(packed, THREE, (0,), None)
    assert "the word" in headline(packed, THREE, (0,), None, "the word")
    assert "None of these methods" in headline(packed, THREE, (2,), None)


def test_describe_when_the_method_is_not_installed_then_has_no_summary() -> None:
    described = describe(pack_attribution(attribution(method="of_another_package"), (0, 1, 2)), Arrays())
    assert (described["name"], described["summary"]) == ("of_another_package", "")
    assert described["signed"] is False
    assert described["params"] == {"layer": "-1", "head": "None"}
