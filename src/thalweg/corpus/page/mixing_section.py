"""Section on mixing: how much of themselves tokens keep, layer by layer."""

from collections.abc import Mapping, Sequence

from thalweg.corpus.page.bands import BAND_NOTE, band_line, percent_cell
from thalweg.corpus.summary import LayerFigures, Summary
from thalweg.drawing.charts import colour, legend, lines
from thalweg.drawing.elements import Markup, details, el, section, table

CHARTS = {  # title and label of the y axis
    "own": ("What tokens keep of themselves", "own share"),
    "not_own": ("Tokens with a larger contributor", "share of tokens"),
    "special": ("Contribution of special tokens", "share"),
    "punctuation": ("Contribution of punctuation", "share"),
    "content": ("Contribution of content tokens", "share"),
}
NOTE = (
    "How much tokens mix: maps from the embeddings to each layer (per-layer steps are multiplied), averaged over the "
    f"tokens of a text. {BAND_NOTE}. A larger contributor gives a token more than the token itself does; the "
    "contribution of a kind of token includes what such tokens give themselves. Scales differ."
)

ByMethod = Mapping[str, Sequence[LayerFigures]]


def mixing_section(summary: Summary) -> Markup:
    title = "Mixing by layer"
    if not summary.layers:
        return section("mixing", title, "No method of this run has a map for every layer of any text.")
    by_method: dict[str, list[LayerFigures]] = {}
    for layer in summary.layers:
        by_method.setdefault(layer.method, []).append(layer)
    series = {name: summary.identity["methods"].index(name) for name in by_method}
    charts = el("div", *(_chart(figure, by_method, series) for figure in CHARTS), class_="figures")
    names = legend([(colour(series[name]), name) for name in by_method])
    return section("mixing", title, NOTE, names, *_identical(by_method), charts, details("Figures", _table(by_method)))


def _chart(figure: str, by_method: ByMethod, series: Mapping[str, int]) -> Markup | str:
    drawn = [
        band_line(
            series[name],
            ((float(layer.layer), f"{name}, layer {layer.layer}", layer.figures[figure]) for layer in layers),
        )
        for name, layers in by_method.items()
    ]
    known = [line for line in drawn if line.points]
    numbers = sorted({layer.layer for layers in by_method.values() for layer in layers})
    title, label = CHARTS[figure]
    return lines(title, "layer", label, known, [(float(number), str(number)) for number in numbers]) if known else ""


def _identical(by_method: ByMethod) -> list[Markup]:
    """A remark for each group of methods whose lines cover each other."""
    groups: dict[str, list[str]] = {}
    for name, layers in by_method.items():
        groups.setdefault(str([layer.figures for layer in layers]), []).append(name)
    return [
        el("p", f"{', '.join(names)} have the same per-layer maps and therefore the same lines.", class_="aside")
        for names in groups.values()
        if len(names) > 1
    ]


def _table(by_method: ByMethod) -> Markup:
    return table(
        "Per cent by layer: mean over texts (10th to 90th percentile)",
        ("method", "layer", "own", "not own", "special", "punctuation", "content", "texts"),
        (
            (
                name if row == 0 else "",
                layer.layer,
                *(percent_cell(layer.figures[figure]) for figure in CHARTS),
                f"{max((band.count for band in layer.figures.values() if band), default=0):,}",
            )
            for name, layers in by_method.items()
            for row, layer in enumerate(layers)
        ),
    )
