"""`thalweg report`: everything about one text on one page."""

from typing import Annotated

import typer

import thalweg
from thalweg.cli.early import check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Html,
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
    split_names,
)
from thalweg.cli.output import check_outputs, load_subject, show
from thalweg.cli.texts import read_text
from thalweg.errors import InputError


def report(
    text: TextArgument = None,
    html: Html = None,
    png: Png = None,
    svg: Svg = None,
    pdf: Pdf = None,
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
    generate: Annotated[int, typer.Option(help="Let a language model continue by this many tokens", min=0)] = 0,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add intervals for the target's largest weights, in every head")
    ] = False,
) -> None:
    """Write everything about one text as one page: tokens, river, methods, heads, mixing, receipt."""
    outputs = check_outputs(file, html=html, png=png, svg=svg, pdf=pdf)
    if not outputs:
        raise InputError("nothing to write: add --html report.html, --png report.png, --svg or --pdf")
    if generate and target_text is not None:
        raise InputError("--generate is for language models without an encoder: omit --target-text")
    names = split_names(methods)
    if names is not None:
        early("thalweg.reports.report", lambda module: module.check_reported(names))
    inputs = read_text(text, file, text_column, pair, pair_column)
    check_model(model, task)
    subject = load_subject(model, task, device, dtype, truncate)
    result = thalweg.report(
        subject,
        inputs if generate else subject.capture_one(inputs, target_text),
        names,
        integer_or_text(target),
        generate=generate,
        intervals=intervals,
        words=words,
    )
    show(result, outputs)
