"""Mixing as a result."""

import numpy as np

from thalweg.attribution.mixing_result import DISTANCES, KINDS, Mixing, MixingFigures
from thalweg.receipt import Receipt

FIGURES = MixingFigures(
    own=np.array([0.8, 0.6]),
    not_own=np.array([0.0, 0.25]),
    by_distance=np.array([[0.1, 0.05, 0.05, 0, 0, 0], [0.2, 0.1, 0.05, 0.05, 0, 0]]),
    by_kind=np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]),
    receipt=Receipt({}, {}, ()),
)
MIXING = Mixing({"alti": FIGURES}, ("layer 0", "layer 1"), "embeddings", 2, 14, {"model": "tiny"})


def test_own_when_read_then_is_the_own_share_by_method() -> None:
    assert list(MIXING.own) == ["alti"]
    assert MIXING.own["alti"].tolist() == [0.8, 0.6]


def test_to_dict_when_written_then_names_distances_and_kinds() -> None:
    described = MIXING.to_dict()
    assert (described["texts"], described["tokens"], described["start"]) == (2, 14, "embeddings")
    second = described["methods"]["alti"]["by_distance"][1]
    assert list(second) == list(DISTANCES)
    assert (second["1st"], second["4–5"]) == (0.2, 0.05)
    assert described["methods"]["alti"]["by_kind"][0] == dict(zip(KINDS, (0.25, 0.25, 0.5), strict=True))
