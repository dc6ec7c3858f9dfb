"""`thalweg trust`: which heads have uniquely determined attention, with intervals and alternatives."""

from typing import Annotated

import typer

import thalweg
from thalweg.cli.early import check_model
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Html,
    Json,
    Limit,
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
    integer_or_text,
)
from thalweg.cli.output import check_outputs, load_subject, show
from thalweg.cli.texts import read_file, read_text
from thalweg.errors import InputError


def trust(
    text: TextArgument = None,
    layer: Annotated[int | None, typer.Option(help="With --head: report on a single head")] = None,
    head: Annotated[int | None, typer.Option(help="With --layer: report on a single head")] = None,
    target: Target = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Measure identifiability by length, on pieces of the texts of --file")
    ] = False,
    file: File = None,
    text_column: TextColumn = "text",
    pair: Pair = None,
    pair_column: PairColumn = None,
    limit: Limit = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    truncate: Truncate = False,
    target_text: TargetText = None,
    json: Json = None,
    html: Html = None,
    png: Png = None,
    svg: Svg = None,
    pdf: Pdf = None,
) -> None:
    """Certify which heads have uniquely determined attention, and how much of it has no effect.

    With --layer and --head: intervals for the largest weights of the target's row, and alternative attention with the
    same output, verified on the model. --html and figures draw both side by side.
    """
    if (layer is None) != (head is None):
        raise InputError("--layer and --head go together: use both, or neither for all heads")
    if target is not None and layer is None:
        raise InputError("--target selects rows of a single head: add --layer and --head")
    if (html or png or svg or pdf) and by_length:
        raise InputError("--html and figures show the certificate of one text: omit --by-length")
    if limit is not None and not by_length:
        raise InputError("--limit goes with --by-length: without it, a single text is certified")
    if by_length and (file is None or layer is not None or any((text, target_text, pair, pair_column))):
        raise InputError(
            "--by-length covers all heads of pieces of --file: add --file, and omit a text, --layer, --head, "
            "--target-text, --pair and --pair-column"
        )
    outputs = check_outputs(file, json=json, html=html, png=png, svg=svg, pdf=pdf)
    check_model(model, task)
    if by_length and file is not None:
        texts = read_file(file, text_column, limit)
        show(thalweg.trust_by_length(load_subject(model, task, device, dtype, truncate), texts), outputs)
        return
    inputs = read_text(text, file, text_column, pair, pair_column)
    subject = load_subject(model, task, device, dtype, truncate)
    capture = subject.capture_one(inputs, target_text)
    if layer is None or head is None:
        show(thalweg.trust(subject, capture), outputs)
    else:
        show(thalweg.trust_head(subject, capture, layer, head, integer_or_text(target)), outputs)
