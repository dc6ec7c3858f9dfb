"""Packed attributions: values kept, entries dropped, positions and headlines."""

import numpy as np
import pytest

from tests.attribution.handmade import SCORES, THREE, answer, attribution
from thalweg.attribution import packed as module
from thalweg.attribution.packed import describe, headline, pack_attribution
from thalweg.drawing.payload import Arrays

LAYERS = np.stack([SCORES, np.eye(3)])


def test_pack_when_the_text_is_short_then_keeps_every_score_and_map() -> None:
    packed = pack_attribution(attribution(per_layer=LAYERS, chain="product"))
    np.testing.assert_allclose(packed.scores.unpacked(), SCORES, atol=1e-5)
    assert packed.layers is not None
    np.testing.assert_allclose(packed.layers.unpacked().reshape(2, 3, 3), LAYERS, atol=3e-3)
    np.testing.assert_allclose(packed.received([0, 1]), SCORES[:2].mean(0), atol=1e-5)


def test_pack_when_maps_do_not_combine_into_the_scores_then_drops_them() -> None:
    assert pack_attribution(attribution(per_layer=LAYERS, chain=None)).layers is None


def test_pack_when_the_budget_is_small_then_keeps_the_largest_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCORE_BYTES", 12)  # four bytes for each of three rows
    packed = pack_attribution(attribution())
    np.testing.assert_allclose(packed.scores.unpacked(), [[0.5, 0, 0], [0, 0, 0.6], [0, 0, 0.6]], atol=1e-5)


def test_explains_when_a_target_has_no_row_then_is_false() -> None:
    packed = pack_attribution(attribution(SCORES[:2], THREE.select((0, 2))))
    assert packed.explains([2])
    assert not packed.explains([1, 2])


def test_headline_when_a_method_explains_the_target_then_names_its_largest_sources() -> None:
    packed = [pack_attribution(attribution(SCORES[:1], THREE.select((0,))))]
    assert headline(packed, THREE, (0,), answer("LABEL_1")) == (
        "The prediction is ‘LABEL_1’ (75.0 %). "
        "By raw_attention, it comes mostly from un (0.50), happy (0.30), film (0.20)."
    )
    assert "‘un’" in headline(packed, THREE, (0,), None)
    assert "the word" in headline(packed, THREE, (0,), None, "the word")
    assert "None of these methods" in headline(packed, THREE, (2,), None)


def test_headline_when_scores_are_signed_then_says_what_speaks_for_and_against() -> None:
    scores, target = np.array([[0.5, -0.3, 0.0]]), THREE.select((0,))
    packed = [pack_attribution(attribution(scores, target, answer=answer("good")))]
    assert headline(packed, THREE, (0,), answer("good")).endswith(
        "By raw_attention, for ‘good’: un (0.50); against it: happy (-0.30)."
    )
    chosen = [pack_attribution(attribution(scores, target, params={"output": 0, "foil": 1}, answer=answer("good")))]
    assert headline(chosen, THREE, (0,), answer("good")) == (
        "The prediction is ‘good’ (75.0 %). "
        "By raw_attention, for ‘other’ (25.0 %) rather than ‘good’ (75.0 %): un (0.50); against it: happy (-0.30)."
    )


def test_describe_when_the_method_is_not_installed_then_has_no_summary() -> None:
    described = describe(pack_attribution(attribution(method="of_another_package")), Arrays())
    assert (described["name"], described["summary"]) == ("of_another_package", "")
    assert described["signed"] is False
    assert described["params"] == {"layer": "-1", "head": "None"}
