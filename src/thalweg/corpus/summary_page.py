"""A summary of a corpus as one HTML file, drawn before it is opened: it can be read without scripts."""

from collections.abc import Callable, Iterable
from math import floor, log2, log10

from thalweg.corpus.rows import SCHEMA
from thalweg.corpus.summary import (
    OFTEN,
    SHORT,
    Band,
    HeadFigures,
    LayerFigures,
    LengthFigures,
    Received,
    Summary,
    TokenFigures,
    signed,
)
from thalweg.drawing.charts import Column, Line, Point, colour, columns, grid, legend, lines
from thalweg.drawing.elements import Markup, details, el, section, table
from thalweg.drawing.page import static_page
from thalweg.identifiability.brief_certificate import BRIEF_VERDICTS
from thalweg.identifiability.result import VERDICTS

KINDS = {
    **dict(zip(VERDICTS, ("yes", "partly", "no"), strict=True)),
    **dict(zip(BRIEF_VERDICTS, ("yes", "no"), strict=True)),
}
FIGURES = {
    "own": ("What tokens keep of themselves", "own share"),
    "not_own": ("Tokens with a larger contributor", "share of tokens"),
    "special": ("What special tokens give", "share"),
    "punctuation": ("What punctuation gives", "share"),
    "content": ("What content tokens give", "share"),
}
FEW = 10  # texts, below which a mean is of little weight
BANDS = f"Lines are means, hollow points of fewer than {FEW} texts; bands reach from the 10th to the 90th percentile"


def summary_page(summary: Summary) -> str:
    """The whole file."""
    first, *rest = summary.sentences()
    top = el(
        "div",
        el("p", "thalweg", class_="brand"),
        el("p", f"{summary.provenance['model']} · corpus", class_="model"),
        el("button", type="button", class_="theme", hidden=""),
        class_="top",
    )
    header = el("header", top, el("h1", first), el("p", " ".join(rest), class_="lead") if rest else "")
    parts = (_run, _mixing, _lengths, _heads, _received, _agreement, _checks)
    body = el("main", header, *(part(summary) for part in parts))
    return static_page(f"Thalweg: {first}", body)


def _run(summary: Summary) -> Markup:
    chosen, counts, made = summary.configuration, summary.counts, summary.provenance
    target = (
        "the prediction; every position where the model makes none"
        if chosen["target"] is None
        else str(chosen["target"])
    )
    said = {
        "model": f"{made['model']} ({made['class']}, {made['dtype']})",
        "fingerprint": ", ".join(f"{name} {chosen[name]}" for name in ("weights", "architecture", "tokenizer")),
        "methods": ", ".join(chosen["methods"]) or "none",
        "certificates": f"of every head ({chosen['certificate']})" if chosen["certificate"] else "not asked for",
        "target": target,
        "texts": f"{counts.texts:,} of {chosen['texts']:,}, {counts.rows:,} rows",
        "tokens in a text": _lengths_said(summary.tokens),
        "failed": f"{counts.failed:,}; of these texts nothing is known",
        "incomplete": f"{counts.incomplete:,}; these lack a method or the certificate",
        "limits": f"{chosen['max_tokens']:,} tokens in a text, {chosen['top']} sources kept of each method and target",
        "configuration": f"{summary.configuration_hash}, schema {SCHEMA}, texts {chosen['digest']}",
        "versions": ", ".join(f"{name} {made[name]}" for name in ("thalweg", "transformers", "torch")),
        "folder": summary.folder,
    }
    unfinished = (
        ""
        if summary.complete
        else el(
            "p", f"The run is not finished: {chosen['texts'] - counts.texts:,} texts are missing.", class_="warning"
        )
    )
    errors = (
        table(
            "The most frequent errors, numbers and quotations aside, as the first text has them",
            ("of", "texts", "first text", "error"),
            (
                (one.part, f"{one.count:,}", f"{one.text:,}", el("td", one.error, class_="words"))
                for one in summary.failures
            ),
            "numbers worded",
        )
        if summary.failures
        else ""
    )
    pairs = el("dl", *(item for name, value in said.items() for item in (el("dt", name), el("dd", value))))
    note = (
        "Which texts, which model, and what was asked of it. Texts are numbered from 0, as in the rows, lines from 1."
    )
    return section("run", "The run", note, unfinished, pairs, errors)


def _lengths_said(tokens: Band | None) -> str:
    if tokens is None:
        return "not known of any"
    return f"{tokens.mean:.1f} on average, 10th to 90th percentile {tokens.low:.0f} to {tokens.high:.0f}"


def _mixing(summary: Summary) -> Markup:
    title = "Mixing by layer"
    if not summary.layers:
        return section("mixing", title, "No method of this run has a map for every layer of any text.")
    by_method: dict[str, list[LayerFigures]] = {}
    for one in summary.layers:
        by_method.setdefault(one.method, []).append(one)
    number = {name: summary.configuration["methods"].index(name) for name in by_method}
    below = [(float(layer), str(layer)) for layer in sorted({one.layer for one in summary.layers})]

    def drawn(figure: str) -> Markup | str:
        series = [
            _line(
                number[name], ((float(one.layer), f"{name}, layer {one.layer}", one.figures[figure]) for one in found)
            )
            for name, found in by_method.items()
        ]
        known = [one for one in series if one.points]
        return lines(FIGURES[figure][0], "layer", FIGURES[figure][1], known, below) if known else ""

    note = (
        "How contextual tokens become: maps of single layers, multiplied up from the embeddings, averaged over the "
        f"tokens of a text. {BANDS} over texts. A larger contributor gives a token more than it gives itself; what "
        "kinds of tokens give includes what they give themselves. Scales differ."
    )
    same: dict[str, list[str]] = {}
    for name, found in by_method.items():
        same.setdefault(str([one.figures for one in found]), []).append(name)
    alike = [
        el("p", f"{', '.join(names)} have the same maps of single layers, and so the same lines.", class_="aside")
        for names in same.values()
        if len(names) > 1
    ]
    rows = (
        (name if not place else "", one.layer, *(_shares(one.figures[figure]) for figure in FIGURES), _count(one))
        for name, found in by_method.items()
        for place, one in enumerate(found)
    )
    figures = table(
        "In %, by layer: mean over texts (10th to 90th percentile)",
        ("method", "layer", "own", "not own", "special", "punctuation", "content", "texts"),
        rows,
    )
    names = legend([(colour(number[name]), name) for name in by_method])
    charts = el("div", *map(drawn, FIGURES), class_="figures")
    return section("mixing", title, note, names, *alike, charts, details("The figures", figures))


def _count(one: LayerFigures) -> str:
    return f"{max((band.count for band in one.figures.values() if band), default=0):,}"


def _no_certificate(summary: Summary) -> str:
    if not summary.configuration["certificate"]:
        return "Certificates were not asked for in this run."
    return "No text of this run has a certificate; what failed stands above."


def _lengths(summary: Summary) -> Markup:
    title = "Null share against length"
    found = summary.lengths
    if not found:
        return section("lengths", title, _no_certificate(summary))

    def place(start: int, stop: int) -> str:
        return f"{start}" if stop == start + 1 else f"{start} to {stop - 1}"

    def edges(one: LengthFigures) -> tuple[float, float]:
        return log2(one.start - 0.5), log2(one.stop - 0.5)

    def line(number: int, name: str, band: Callable[[LengthFigures], Band | None]) -> Line:
        middle = (log2((one.start + one.stop - 1) / 2) for one in found)
        said = (f"{name}, {place(one.start, one.stop)} tokens" for one in found)
        return _line(number, zip(middle, said, map(band, found), strict=True))

    names = {2: "without effect", 3: "without effect, rows still summing to one"}
    series = [
        line(2, names[2], lambda one: one.null_share),
        line(3, names[3], lambda one: one.null_share_row_sum),
    ]
    note = (
        "How much of attention, by norm, could be taken away without any change of a head's output, and how much of it "
        f"while rows still sum to one; averaged over a text's heads. {BANDS} over texts of like length."
    )
    axis = "tokens in the text, logarithmic"
    powers = (2**power for power in range(found[-1].stop.bit_length()))
    below = [(log2(one), f"{one:,}") for one in powers if found[0].start <= one <= found[-1].stop]
    shares = columns(
        "Heads by verdict",
        axis,
        "share of heads",
        [
            Column(
                *edges(one),
                [(KINDS[name], share) for name, share in one.verdicts.items()],
                f"{place(one.start, one.stop)} tokens: "
                + ", ".join(f"{name} {share:.1%}" for name, share in one.verdicts.items()),
            )
            for one in found
        ],
        below,
    )
    texts = columns(
        "Texts",
        axis,
        "number of texts",
        [
            Column(
                *edges(one),
                [("series-5", float(one.texts))],
                f"{place(one.start, one.stop)} tokens: {one.texts:,} texts",
            )
            for one in found
        ],
        below,
        counts=True,
    )
    known = [one for one in series if one.points]
    charts = [lines("Null share", axis, "share of attention", known, below)] if known else []
    figures = table(
        "In %, by length: mean over texts (10th to 90th percentile), and the mean share of heads by verdict",
        ("tokens", "texts", "null share", "rows summing to one", *summary.possible),
        (
            (
                place(one.start, one.stop),
                f"{one.texts:,}",
                _shares(one.null_share),
                _shares(one.null_share_row_sum),
                *(f"{100 * share:.1f}" for share in one.verdicts.values()),
            )
            for one in found
        ),
    )
    key = legend(
        [*((colour(number), name) for number, name in names.items()), *((KINDS[one], one) for one in summary.possible)]
    )
    return section(
        "lengths",
        title,
        note,
        key,
        el("div", *charts, shares, texts, class_="figures"),
        details("The figures", figures),
    )


def _heads(summary: Summary) -> Markup:
    title = "Certificates of heads"
    if not summary.heads:
        return section("heads", title, _no_certificate(summary))
    asked = (
        "By values: others do; whether one of them is a softmax of its own keys was not asked"
        if summary.configuration["certificate"] == "values"
        else "Given the keys: others do, but none as a softmax of its own keys, for small changes of the query"
    )
    note = (
        f"In how many texts a head's attention can be read. Identifiable: no other weights give its output. {asked}. "
        "Bars are shares of texts, numbers the per cent of texts in which a head is identifiable."
    )
    total = sum(summary.verdicts.values())
    key = legend([(KINDS[name], f"{name} ({count / total:.1%})") for name, count in summary.verdicts.items()])
    picture = grid(
        "Verdicts by layer and head; the figures are in the table below",
        sorted({one.layer for one in summary.heads}),
        [
            (
                one.layer,
                one.head,
                f"{100 * one.verdicts['identifiable'] / one.texts:.0f}",
                [(KINDS[name], count / one.texts) for name, count in one.verdicts.items() if count],
                _head_said(one),
            )
            for one in summary.heads
        ],
    )
    figures = table(
        "Texts by verdict, and the mean share of attention without effect in %",
        ("head", *summary.possible, "null share", "rows summing to one"),
        (
            (
                f"layer {one.layer} head {one.head}",
                *(f"{count:,}" for count in one.verdicts.values()),
                *("–" if one is None else f"{100 * one:.1f}" for one in (one.null_share, one.null_share_row_sum)),
            )
            for one in summary.heads
        ),
    )
    return section("heads", title, note, key, picture, details("The figures", figures))


def _head_said(one: HeadFigures) -> str:
    counts = ", ".join(f"{name} in {count:,}" for name, count in one.verdicts.items())
    return f"layer {one.layer} head {one.head}: {counts} of {one.texts:,} texts"


def _received(summary: Summary) -> Markup:
    title = "Tokens that receive most"
    if not summary.received:
        said = (
            "No method was asked for." if not summary.configuration["methods"] else "No text has scores of any method."
        )
        return section("tokens", title, said)
    top = summary.configuration["top"]
    note = (
        f"Which tokens get most of the attribution. Rows keep the {top} largest sources of each target, so means are "
        "over the times a token was kept, not over all times it occurs. Scores are in the unit of each method."
    )
    shares = table(
        f"Over {_unit(summary)}: mean (10th to 90th percentile). Shares in % of all scores by size, entropy in nats",
        ("method", _unit(summary), "to special tokens", "to the target's own position", "entropy of the shares"),
        (
            (
                one.method,
                f"{one.targets:,}",
                _shares(one.special_share),
                _shares(one.own_share),
                "–" if (found := one.entropy) is None else f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})",
            )
            for one in summary.received
        ),
    )
    return section("tokens", title, note, shares, *(_tokens(one, summary) for one in summary.received))


def _tokens(one: Received, summary: Summary) -> Markup:
    signs = any(token.size > abs(token.score) + 1e-9 for token in (*one.first, *one.largest))
    heads = (
        "token",
        "times largest",
        f"% of {_unit(summary)}",
        "times kept",
        "mean score",
        *(["mean size"] if signs else []),
    )

    largest = max((token.size for token in (*one.first, *one.largest)), default=1.0)
    digits = min(9, max(0, 2 - floor(log10(largest))))

    def score(value: float) -> str:
        return f"{value:.{digits}f}".replace("-", "−")

    def listed(caption: str, found: tuple[TokenFigures, ...], otherwise: str) -> Markup:
        rows = (
            (
                token.token,
                f"{token.first:,}",
                f"{100 * token.first / one.targets:.1f}",
                f"{token.kept:,}",
                score(token.score),
                *([score(token.size)] if signs else []),
            )
            for token in found
        )
        return table(caption, heads, rows) if found else el("p", otherwise, class_="note")

    first = listed("Most often the largest source", one.first, "No source has a score.")
    often = f"kept {OFTEN} times"
    best = listed(f"Largest mean score by size, {often} or more", one.largest, f"No token was {often}.")
    return el("div", el("h3", one.method), el("div", first, best, class_="tables"))


def _agreement(summary: Summary) -> Markup:
    title = "Agreement between methods"
    methods = summary.configuration["methods"]
    if len(methods) < 2:
        return section("agreement", title, "There are not two methods in this run to compare.")
    if not summary.agreement:
        return section("agreement", title, "No text has scores of two methods.")
    found = {frozenset((one.method, one.other)): one for one in summary.agreement}

    def cell(first: str, second: str) -> Markup:
        if first == second:
            return el("td", "1")
        pair = found.get(frozenset((first, second)))
        if pair is None or pair.correlation is None:
            return el("td", "–")
        band = pair.correlation
        strength = min(5, round(5 * abs(band.mean)))
        kind = f"{'more' if band.mean >= 0 else 'less'}-{strength}" if strength else None
        return el("td", signed(band.mean), el("small", f"{signed(band.low)} to {signed(band.high)}"), class_=kind)

    note = (
        "Spearman's rank correlation of two methods over the sources of a target, from −1 to 1; of the sizes of scores "
        f"where any has a sign. Mean over {_unit(summary)}, below it the 10th to 90th percentile."
    )
    matrix = table(
        "Mean rank correlation",
        ("", *methods),
        ((name, *(cell(name, other) for other in methods)) for name in methods),
        "agreement",
    )
    undefined = [f"{one.method} and {one.other} {one.undefined:,}" for one in summary.agreement if one.undefined]
    left = (
        el("p", f"Left out, because a method scores all sources alike: {', '.join(undefined)}.", class_="aside")
        if undefined
        else ""
    )
    targets = _unit(summary) == "targets"
    if not summary.apart:
        apart = el("p", f"No text has {SHORT} tokens, below which the order of sources says little.", class_="aside")
    else:
        apart = table(
            f"Where methods agree least, by the mean over their pairs, among texts of {SHORT} tokens or more",
            ("text", "line", *(["target"] if targets else []), "tokens", "mean", "lowest", "between"),
            (
                (
                    f"{one.text:,}",
                    f"{one.line:,}",
                    *([one.target] if targets else []),
                    one.tokens,
                    signed(one.correlation),
                    signed(one.lowest),
                    el("td", f"{one.method}, {one.other}", class_="words"),
                )
                for one in summary.apart
            ),
            "numbers worded",
        )
    return section("agreement", title, note, matrix, left, apart)


def _checks(summary: Summary) -> Markup:
    title = "Checks"
    if not summary.checks:
        return section("checks", title, "Nothing was checked, because no text could be used.")
    broken = [one for one in summary.checks if one.exceeding]
    note = (
        "What was proved on each text's own pass. Each identity stands with the text where its error is largest beside "
        "what is allowed there."
    )
    held = (
        el("p", f"{len(broken)} of {len(summary.checks)} checks are exceeded on some text.", class_="warning")
        if broken
        else el("p", "Every check holds on every text.", class_="said")
    )
    figures = table(
        "Largest relative error against what is allowed",
        ("check", "largest error", "allowed", "text", "line", "texts that exceed"),
        (
            (
                f"{one.method}: {one.identity.replace('_', ' ')}",
                "not finite" if one.worst is None else f"{one.worst:.1e}",
                f"{one.allowed:.1e}",
                f"{one.text:,}",
                f"{one.line:,}",
                f"{one.exceeding:,} of {one.texts:,}",
            )
            for one in summary.checks
        ),
    )
    return section("checks", title, note, held, figures)


def _unit(summary: Summary) -> str:
    """What figures of single targets are counted by."""
    return "texts" if summary.counts.rows == summary.counts.texts else "targets"


def _line(number: int, found: Iterable[tuple[float, str, Band | None]]) -> Line:
    """Bands at their places, with their names; a place of which nothing is known is passed over."""
    return Line(number, [_point(x, name, band) for x, name, band in found if band is not None])


def _point(x: float, name: str, band: Band) -> Point:
    said = f"{name}: {band.mean:.1%}, 10th to 90th percentile {band.low:.1%} to {band.high:.1%}, {band.count:,} texts"
    return Point(x, band.mean, band.low, band.high, band.count < FEW, said)


def _shares(band: Band | None) -> str:
    return "–" if band is None else f"{100 * band.mean:.1f} ({100 * band.low:.1f} to {100 * band.high:.1f})"
