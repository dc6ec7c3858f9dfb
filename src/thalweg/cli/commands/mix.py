"""`thalweg mix`: how tokens mix, layer by layer."""

from typing import Annotated

import typer

import thalweg
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Json,
    Limit,
    Model,
    TargetText,
    Task,
    TextColumn,
    set_options,
    split_names,
)
from thalweg.cli.output import check_writable, load_subject, show
from thalweg.errors import InputError
from thalweg.files.tables import read_texts


def mix(
    text: Annotated[str | None, typer.Argument(help="Text to measure, unless --file is used")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, comma-separated")] = None,
    start: Annotated[str, typer.Option(help="Start of each map: embeddings, or layer (the previous layer)")] = (
        "embeddings"
    ),
    file: File = None,
    text_column: TextColumn = "text",
    limit: Limit = None,
    model: Model = None,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
    target_text: TargetText = None,
    json: Json = None,
) -> None:
    """Show how tokens mix: own share and shares of neighbours, by layer and method."""
    if (text is None) == (file is None):
        raise InputError("expected either a text or --file with texts")
    if file is not None and target_text is not None:
        raise InputError("--target-text goes with a single text: omit --file")
    check_writable(json)
    texts = [] if file is None else read_texts(file, text_column, limit)
    subject = load_subject(model, task, device, dtype)
    inputs = texts if text is None else subject.capture(text, target_text)
    chosen = set_options(methods=split_names(methods))
    show(thalweg.mixing(subject, inputs, start=start, **chosen), json)  # pyright: ignore[reportArgumentType]
