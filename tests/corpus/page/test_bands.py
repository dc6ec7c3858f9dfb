"""Bands as text and as points of a line."""

from tests.corpus.summaries import hand_made_summary
from thalweg.corpus.page.bands import (
    MIN_TEXTS,
    VERDICT_CLASSES,
    band_line,
    missing_certificate,
    percent_cell,
    target_unit,
)
from thalweg.corpus.shard_store import Counts
from thalweg.corpus.summary import Band
from thalweg.identifiability.brief_certificate import BRIEF_VERDICTS
from thalweg.identifiability.result import VERDICTS


def test_line_when_a_band_is_unknown_then_skips_it() -> None:
    few, many = Band(0.5, 0.25, 0.75, MIN_TEXTS - 1), Band(0.5, 0.25, 0.75, MIN_TEXTS)
    line = band_line(2, [(0.0, "layer 0", few), (1.0, "layer 1", None), (2.0, "layer 2", many)])
    assert [(point.x, point.mean, point.low, point.high) for point in line.points] == [
        (0.0, 0.5, 0.25, 0.75),
        (2.0, 0.5, 0.25, 0.75),
    ]


def test_cell_when_a_band_is_known_then_shows_per_cent() -> None:
    assert percent_cell(Band(0.5, 0.25, 0.75, 3)) == "50.0 (25.0 to 75.0)"
    assert percent_cell(None) == "–"


def test_unit_when_texts_have_several_targets_then_is_targets() -> None:
    assert target_unit(hand_made_summary()) == "texts"
    assert target_unit(hand_made_summary(counts=Counts(20, 60))) == "targets"


def test_certificate_when_missing_then_the_reason_depends_on_the_job() -> None:
    assert "without certificates" in missing_certificate(hand_made_summary({"certificate": None}))
    assert "errors above" in missing_certificate(hand_made_summary())


def test_verdicts_when_drawn_then_each_has_a_class() -> None:
    assert set(VERDICT_CLASSES) == {*VERDICTS, *BRIEF_VERDICTS}
