"""`thalweg mix`: how tokens mix, layer by layer."""

from typing import Annotated

import typer

import thalweg
from thalweg.cli.early import check_model, early
from thalweg.cli.options import (
    Device,
    Dtype,
    File,
    Json,
    Limit,
    Methods,
    Model,
    Pair,
    PairColumn,
    TargetText,
    Task,
    TextArgument,
    TextColumn,
    Truncate,
    set_options,
    split_names,
)
from thalweg.cli.output import check_outputs, load_subject, show
from thalweg.cli.texts import read_several
from thalweg.errors import InputError


def mix(
    text: TextArgument = None,
    methods: Methods = None,
    start: Annotated[str, typer.Option(help="Start of each map: embeddings, or layer (the previous layer)")] = (
        "embeddings"
    ),
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
) -> None:
    """Show how tokens mix: own share and shares of neighbours, by layer and method."""
    if file is not None and target_text is not None:
        raise InputError("--target-text goes with a single text: omit --file")
    outputs = check_outputs(file, json=json)
    chosen = set_options(methods=split_names(methods), start=start)
    early("thalweg.attribution.mixing", lambda module: module.check_mixing(**chosen))
    texts = read_several(text, file, text_column, limit, pair, pair_column)
    check_model(model, task)
    subject = load_subject(model, task, device, dtype, truncate)
    inputs = texts if file is not None else subject.capture_one(texts[0], target_text)
    show(thalweg.mixing(subject, inputs, **chosen), outputs)
