"""Bands as text, as table cells and as points of a line; shared by the sections of the page."""

from collections.abc import Iterable

from thalweg.corpus.summary import Band, Summary
from thalweg.drawing.charts import Line, Point
from thalweg.identifiability.brief_certificate import BRIEF_VERDICTS
from thalweg.identifiability.result import VERDICTS

VERDICT_CLASSES = {  # CSS classes
    **dict(zip(VERDICTS, ("yes", "partly", "no"), strict=True)),
    **dict(zip(BRIEF_VERDICTS, ("yes", "no"), strict=True)),
}
MIN_TEXTS = 10  # of a mean that is drawn as a filled point
BAND_NOTE = (
    f"Lines are means (hollow points: fewer than {MIN_TEXTS} texts); bands span the 10th to 90th percentile of texts"
)


def band_line(series: int, bands: Iterable[tuple[float, str, Band | None]]) -> Line:
    """A line through bands at their positions; unknown bands are skipped."""
    return Line(series, [_point(x, name, band) for x, name, band in bands if band is not None])


def _point(x: float, name: str, band: Band) -> Point:
    tooltip = (
        f"{name}: {band.mean:.1%}, 10th to 90th percentile {band.low:.1%} to {band.high:.1%}, {band.count:,} texts"
    )
    return Point(x, band.mean, band.low, band.high, band.count < MIN_TEXTS, tooltip)


def percent_cell(band: Band | None) -> str:
    """A band of shares as a table cell, in per cent."""
    return "–" if band is None else f"{100 * band.mean:.1f} ({100 * band.low:.1f} to {100 * band.high:.1f})"


def target_unit(summary: Summary) -> str:
    """What figures of single targets count: texts, unless a text has several targets."""
    return "texts" if summary.counts.rows == summary.counts.texts else "targets"


def missing_certificate(summary: Summary) -> str:
    """Why there is nothing to show about heads."""
    if not summary.identity["certificate"]:
        return "This run was started without certificates."
    return "No text of this run has a certificate; see the errors above."
