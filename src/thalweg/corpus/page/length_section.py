"""Section on length: null share, verdicts and number of texts against the number of tokens."""

from collections.abc import Sequence
from math import log2

from thalweg.corpus.page.bands import BAND_NOTE, VERDICT_CLASSES, band_line, missing_certificate, percent_cell
from thalweg.corpus.summary import LengthFigures, Summary
from thalweg.drawing.charts import Column, colour, columns, legend, lines
from thalweg.drawing.elements import Markup, details, el, section, table

AXIS = "tokens in the text, logarithmic"
SERIES = {  # name and colour of a line
    "null_share": ("null share", 2),
    "null_share_row_sum": ("null share with rows still summing to one", 3),
}
TEXTS_CLASS = "series-5"
NOTE = (
    "The share of attention, by norm, that could be removed without any change of a head's output, and the part of it "
    f"that could be removed while rows still sum to one; averaged over the heads of a text. {BAND_NOTE} of similar "
    "length."
)


def length_section(summary: Summary) -> Markup:
    title, bins = "Null share against length", summary.lengths
    if not bins:
        return section("lengths", title, missing_certificate(summary))
    charts = (_null_shares(bins), _verdicts(bins), _text_counts(bins))
    names = legend(
        [
            *((colour(series), name) for name, series in SERIES.values()),
            *((VERDICT_CLASSES[verdict], verdict) for verdict in summary.possible_verdicts),
        ]
    )
    figures = details("Figures", _table(bins, summary.possible_verdicts))
    return section("lengths", title, NOTE, names, el("div", *charts, class_="figures"), figures)


def _null_shares(bins: Sequence[LengthFigures]) -> Markup | str:
    drawn = [
        band_line(
            series,
            (
                (log2((length.start + length.stop - 1) / 2), f"{name}, {_range(length)} tokens", getattr(length, field))
                for length in bins
            ),
        )
        for field, (name, series) in SERIES.items()
    ]
    known = [line for line in drawn if line.points]
    return lines("Null share", AXIS, "share of attention", known, _axis_labels(bins)) if known else ""


def _verdicts(bins: Sequence[LengthFigures]) -> Markup:
    stacks = [
        Column(
            *_edges(length),
            [(VERDICT_CLASSES[verdict], share) for verdict, share in length.verdicts.items()],
            f"{_range(length)} tokens: "
            + ", ".join(f"{verdict} {share:.1%}" for verdict, share in length.verdicts.items()),
        )
        for length in bins
    ]
    return columns("Heads by verdict", AXIS, "share of heads", stacks, _axis_labels(bins))


def _text_counts(bins: Sequence[LengthFigures]) -> Markup:
    stacks = [
        Column(
            *_edges(length), [(TEXTS_CLASS, float(length.texts))], f"{_range(length)} tokens: {length.texts:,} texts"
        )
        for length in bins
    ]
    return columns("Texts", AXIS, "number of texts", stacks, _axis_labels(bins), counts=True)


def _table(bins: Sequence[LengthFigures], verdicts: Sequence[str]) -> Markup:
    return table(
        "Per cent by length: mean over texts (10th to 90th percentile), and the mean share of heads by verdict",
        ("tokens", "texts", "null share", "rows summing to one", *verdicts),
        (
            (
                _range(length),
                f"{length.texts:,}",
                percent_cell(length.null_share),
                percent_cell(length.null_share_row_sum),
                *(f"{100 * share:.1f}" for share in length.verdicts.values()),
            )
            for length in bins
        ),
    )


def _range(length: LengthFigures) -> str:
    return f"{length.start}" if length.stop == length.start + 1 else f"{length.start} to {length.stop - 1}"


def _edges(length: LengthFigures) -> tuple[float, float]:
    """Where the column of a bin starts and stops on the logarithmic axis."""
    return log2(length.start - 0.5), log2(length.stop - 0.5)


def _axis_labels(bins: Sequence[LengthFigures]) -> list[tuple[float, str]]:
    """The powers of two that the bins cover."""
    powers = (2**exponent for exponent in range(bins[-1].stop.bit_length()))
    return [(log2(power), f"{power:,}") for power in powers if bins[0].start <= power <= bins[-1].stop]
