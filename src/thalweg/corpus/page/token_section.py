"""Section on sources: which tokens get most of the attribution, by method."""

from collections.abc import Callable, Sequence
from math import floor, log10

from thalweg.corpus.page.bands import percent_cell, target_unit
from thalweg.corpus.summary import MIN_TIMES_KEPT, MethodFigures, Summary, TokenFigures
from thalweg.drawing.elements import Markup, el, section, table

MAX_DECIMALS = 9


def token_section(summary: Summary) -> Markup:
    title = "Largest sources"
    if not summary.methods:
        reason = "No text has scores of any method." if summary.identity["methods"] else "This run has no methods."
        return section("tokens", title, reason)
    note = (
        f"The tokens with the largest scores. Rows keep the {summary.identity['top']} largest sources of each target, "
        "so means are over the times a token was kept, not over all its occurrences. Scores are in the unit of each "
        "method."
    )
    tables = (_token_tables(method, target_unit(summary)) for method in summary.methods)
    return section("tokens", title, note, _shares(summary), *tables)


def _shares(summary: Summary) -> Markup:
    unit = target_unit(summary)
    return table(
        f"Over {unit}: mean (10th to 90th percentile); shares in per cent of the sum of |score|, entropy in nats",
        ("method", unit, "special tokens", "the target's own position", "entropy of the shares"),
        (
            (
                method.method,
                f"{method.targets:,}",
                percent_cell(method.special_share),
                percent_cell(method.own_share),
                "–"
                if method.entropy is None
                else f"{method.entropy.mean:.2f} ({method.entropy.low:.2f} to {method.entropy.high:.2f})",
            )
            for method in summary.methods
        ),
    )


def _token_tables(method: MethodFigures, unit: str) -> Markup:
    tokens = (*method.most_often_largest, *method.largest_mean)
    mixed_signs = any(token.mean_size > abs(token.mean_score) + 1e-9 for token in tokens)
    score = _score_format(max((token.mean_size for token in tokens), default=1.0))
    columns = ("token", "times largest", f"% of {unit}", "times kept", "mean score")

    def listed(caption: str, entries: Sequence[TokenFigures], otherwise: str) -> Markup:
        if not entries:
            return el("p", otherwise, class_="note")
        rows = (
            (
                token.token,
                f"{token.times_largest:,}",
                f"{100 * token.times_largest / method.targets:.1f}",
                f"{token.times_kept:,}",
                score(token.mean_score),
                *([score(token.mean_size)] if mixed_signs else []),
            )
            for token in entries
        )
        return table(caption, (*columns, "mean |score|") if mixed_signs else columns, rows)

    most_often = listed("Most often the largest source", method.most_often_largest, "No source has a score.")
    largest_mean = listed(
        f"Largest mean |score|, kept at least {MIN_TIMES_KEPT} times",
        method.largest_mean,
        f"No token was kept {MIN_TIMES_KEPT} times.",
    )
    return el("div", el("h3", method.method), el("div", most_often, largest_mean, class_="tables"))


def _score_format(largest: float) -> Callable[[float], str]:
    """A formatter with enough decimals for three significant digits of the largest score."""
    decimals = min(MAX_DECIMALS, max(0, 2 - floor(log10(largest))))
    return lambda value: f"{value:.{decimals}f}".replace("-", "−")
