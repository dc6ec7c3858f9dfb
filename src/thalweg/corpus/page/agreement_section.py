"""Section on agreement: rank correlation of every pair of methods, and the targets where it is lowest."""

from thalweg.corpus.page.bands import target_unit
from thalweg.corpus.summary import MIN_TOKENS, PairAgreement, Summary, signed
from thalweg.drawing.elements import Markup, el, section, table

SHADES = 5  # of positive and of negative correlation, in the style sheet


def agreement_section(summary: Summary) -> Markup:
    title, methods = "Agreement between methods", summary.identity["methods"]
    if len(methods) < 2:
        return section("agreement", title, "This run has fewer than two methods to compare.")
    if not summary.agreement:
        return section("agreement", title, "No text has scores of two methods.")
    note = (
        "Spearman's rank correlation of two methods over the sources of a target, from −1 to 1, by |score| if any "
        f"method has negative scores. Mean over {target_unit(summary)}, with the 10th to 90th percentile below."
    )
    undefined = [f"{pair.method} and {pair.other} {pair.undefined:,}" for pair in summary.agreement if pair.undefined]
    excluded = f"Excluded because a method gives all sources the same score: {', '.join(undefined)}."
    aside = el("p", excluded, class_="aside") if undefined else ""
    return section("agreement", title, note, _matrix(summary), aside, _lowest(summary))


def _matrix(summary: Summary) -> Markup:
    methods = summary.identity["methods"]
    pairs = {frozenset((pair.method, pair.other)): pair for pair in summary.agreement}
    rows = (
        (
            name,
            *(el("td", "1") if name == other else _cell(pairs.get(frozenset((name, other)))) for other in methods),
        )
        for name in methods
    )
    return table("Mean rank correlation", ("", *methods), rows, "agreement")


def _cell(pair: PairAgreement | None) -> Markup:
    if pair is None or pair.correlation is None:
        return el("td", "–")
    band = pair.correlation
    shade = min(SHADES, round(SHADES * abs(band.mean)))
    css_class = f"{'more' if band.mean >= 0 else 'less'}-{shade}" if shade else None
    return el("td", signed(band.mean), el("small", f"{signed(band.low)} to {signed(band.high)}"), class_=css_class)


def _lowest(summary: Summary) -> Markup:
    if not summary.lowest_agreement:
        return el("p", f"No text has {MIN_TOKENS} tokens; rankings of fewer sources mean little.", class_="aside")
    several = target_unit(summary) == "targets"
    return table(
        f"Lowest agreement, by the mean over all pairs of methods, in texts with at least {MIN_TOKENS} tokens",
        ("text", "line", *(["target"] if several else []), "tokens", "mean", "lowest", "between"),
        (
            (
                f"{target.text:,}",
                f"{target.line:,}",
                *([target.target] if several else []),
                target.tokens,
                signed(target.correlation),
                signed(target.lowest),
                el("td", f"{target.method}, {target.other}", class_="words"),
            )
            for target in summary.lowest_agreement
        ),
        "numbers worded",
    )
