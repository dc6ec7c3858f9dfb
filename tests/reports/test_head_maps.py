"""Maps of heads and the certificate they are taken from."""

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.tiny import SENTENCE, tiny_subject
from thalweg.identifiability.certificate import certify
from thalweg.reports import head_maps
from thalweg.reports.head_maps import certificate_and_maps, downsample

TEXT = "a gorgeous, witty, seductive movie that never quite manages to make its characters as real as its places."


def test_map_when_downsampled_then_each_cell_has_the_entry_of_the_largest_magnitude() -> None:
    maps = torch.tensor([[[0.1, -0.3, 0.2, 0.0, 0.5]]])
    assert downsample(maps, 1) is maps
    torch.testing.assert_close(downsample(maps, 2), torch.tensor([[[-0.3, 0.2, 0.5]]]))
    torch.testing.assert_close(downsample(maps, 3), torch.tensor([[[-0.3, 0.5]]]))


def test_maps_when_packed_then_are_attention_and_its_null_component(bundled: tw.Subject) -> None:
    capture = bundled.capture_one(TEXT)
    _, maps = certificate_and_maps(capture)
    raw = capture.blocks[2].weights().double().numpy()
    effective = tw.explain(bundled, TEXT, "effective_attention", "all", layer=2, head=4, constraint="row_sum").scores
    assert maps[2].null is not None and maps[2].cell == 1
    np.testing.assert_allclose(maps[2].weights.unpacked().reshape(raw.shape), raw, atol=2.1e-3)
    np.testing.assert_allclose(maps[2].null.unpacked().reshape(raw.shape)[4], raw[4] - effective, atol=2.1e-3)


def test_certificate_when_watched_then_is_the_same_and_the_maps_are_shown(bundled: tw.Subject) -> None:
    capture = bundled.capture_one(TEXT)
    seen: list[tuple[int, float]] = []
    watched = certify(capture, watch=lambda layer, weights, used: seen.append((layer, float((weights - used).norm()))))
    assert watched.to_dict() == certify(capture).to_dict()
    assert [layer for layer, _ in seen] == [0, 1, 2, 3]
    assert all(size > 0 for _, size in seen)


def test_maps_when_the_text_is_long_then_are_coarse_and_without_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_maps, "MAX_CERTIFIED_TOKENS", 5)
    monkeypatch.setattr(head_maps, "MAX_CELLS", 1)
    subject = tiny_subject()
    capture = subject.capture_one(" ".join([SENTENCE] * 2))
    certificate, maps = certificate_and_maps(capture)
    assert certificate is None
    count = len(capture.tokens)
    assert 16 < count <= 32
    for layer, entry in enumerate(maps):
        assert (entry.layer, entry.cell, entry.null) == (layer, 2, None)
        cells = entry.weights.unpacked().reshape(entry.heads, (count + 1) // 2, (count + 1) // 2)
        weights = capture.blocks[layer].weights().double().numpy()
        np.testing.assert_allclose(cells[1, 2, 3], weights[1, 4:6, 6:8].max(), atol=3e-3)
