"""`thalweg compare`: several methods on one text, side by side."""

from typing import Annotated

import typer

import thalweg
from thalweg.cli.options import (
    Device,
    Dtype,
    Html,
    Json,
    Model,
    Png,
    Target,
    TargetText,
    Task,
    Text,
    Words,
    integer_or_text,
    set_options,
    split_names,
)
from thalweg.cli.output import check_drawing, check_writable, load_subject, show


def compare(
    text: Text,
    methods: Annotated[str | None, typer.Option(help="Two or more methods, comma-separated")] = None,
    model: Model = None,
    task: Task = None,
    target: Target = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    words: Words = False,
    json: Json = None,
    html: Html = None,
    png: Png = None,
) -> None:
    """Explain one text by several methods, side by side, and show how far they agree."""
    check_drawing(html, png)
    check_writable(json)
    subject = load_subject(model, task, device, dtype)
    capture = subject.capture(text, target_text)
    chosen = set_options(methods=split_names(methods))
    result = thalweg.compare(subject, capture, target=integer_or_text(target), **chosen)
    if words:
        result = thalweg.Comparison(tuple(attribution.words() for attribution in result.attributions))
    show(result, json, html, png)
