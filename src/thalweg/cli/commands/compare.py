"""`thalweg compare`: several methods on one text, side by side."""

import thalweg
from thalweg.cli.early import check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Html,
    Json,
    Methods,
    Model,
    Pair,
    PairColumn,
    Pdf,
    Png,
    Svg,
    Target,
    TargetText,
    Task,
    TextArgument,
    TextColumn,
    Truncate,
    Words,
    integer_or_text,
    set_options,
    split_names,
)
from thalweg.cli.output import check_outputs, load_subject, show
from thalweg.cli.texts import read_text


def compare(
    text: TextArgument = None,
    methods: Methods = None,
    file: File = None,
    text_column: TextColumn = "text",
    pair: Pair = None,
    pair_column: PairColumn = None,
    model: Model = None,
    task: Task = None,
    target: Target = None,
    device: Device = None,
    dtype: Dtype = None,
    truncate: Truncate = False,
    target_text: TargetText = None,
    words: Words = False,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    svg: Svg = None,
    pdf: Pdf = None,
) -> None:
    """Explain one text by several methods, side by side, and show how far they agree."""
    outputs = check_outputs(file, json=json, html=html, png=png, svg=svg, pdf=pdf)
    chosen = set_options(methods=split_names(methods))
    early("thalweg.attribution.explain", lambda module: module.check_compared(**chosen))
    inputs = read_text(text, file, text_column, pair, pair_column)
    check_model(model, task)
    subject = load_subject(model, task, device, dtype, truncate)
    capture = subject.capture_one(inputs, target_text)
    result = thalweg.compare(subject, capture, target=integer_or_text(target), **chosen)
    if words:
        result = thalweg.Comparison(tuple(attribution.words() for attribution in result.attributions))
    show(result, outputs)
