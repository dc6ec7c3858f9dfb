"""`thalweg report`: everything about one text on one page."""

from typing import Annotated

import typer
from rich.console import Console

import thalweg
from thalweg.cli.options import (
    Device,
    Dtype,
    Html,
    Model,
    Png,
    Target,
    TargetText,
    Task,
    Text,
    Words,
    integer_or_text,
    split_names,
)
from thalweg.cli.output import check_drawing, draw, load_subject
from thalweg.errors import InputError


def report(
    text: Text,
    html: Html = None,
    png: Png = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, comma-separated (default: those the model and length allow)")
    ] = None,
    model: Model = None,
    task: Task = None,
    target: Target = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    words: Words = False,
    generate: Annotated[int, typer.Option(help="Let a language model continue by this many tokens", min=0)] = 0,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add intervals for the target's largest weights, in every head")
    ] = False,
) -> None:
    """Write everything about one text as one page: tokens, river, methods, heads, mixing, receipt."""
    if html is None and png is None:
        raise InputError("nothing to write: add --html report.html or --png report.png")
    if generate and target_text is not None:
        raise InputError("--generate is for language models without an encoder: omit --target-text")
    check_drawing(html, png)
    subject = load_subject(model, task, device, dtype)
    result = thalweg.report(
        subject,
        text if generate else subject.capture(text, target_text),
        split_names(methods),
        integer_or_text(target),
        generate=generate,
        intervals=intervals,
        words=words,
    )
    draw(result, html, png)
    console = Console()
    console.print(result)
    console.print(f"wrote {', '.join(str(path) for path in (html, png) if path)}", highlight=False, markup=False)
